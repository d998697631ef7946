// Talking to the server: JSON and tensors, problems as errors, and the answers a saved page carries.
//
// A saved page holds `<script type="application/json" id="transduce-data">` with
//   {"hash": "#/attention?…", "responses": {"GET api/v1/model": {"json": …}, "GET api/v1/traces/…": {"base64": "…"}}}
// and is asked first, so that it works from a disk, without any server.
// Does not know: views, languages, what an answer means.
import { readSafetensors, type Tensors } from './tensor'

/** RFC 9457 problem details, or what stands for them when no server answered. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    /** The last part of the problem's type; `unreachable` when no server answered. */
    readonly kind: string,
    readonly detail: string,
    readonly members: Record<string, unknown> = {},
    readonly retryAfter: number | null = null,
  ) {
    super(detail)
  }
}

export interface Saved {
  /** Where the reader was when the page was saved. */
  hash?: string
  responses: Record<string, { json?: unknown; base64?: string }>
}

const SAFETENSORS = 'application/x-safetensors'

let saved: Saved | null = null
if (typeof document !== 'undefined') {
  const element = document.getElementById('transduce-data')
  if (element?.textContent) saved = JSON.parse(element.textContent) as Saved
}

/** The place a saved page opens at. */
export const savedHash: string = saved?.hash ?? ''

/** True when this page was saved, and has no server to ask. */
export const isSaved = saved !== null

/** Every answer so far, as a saved page would hold it. */
export const recorded: Saved = { responses: {} }

/** The JSON answer to a request; throws Problem, or AbortError when the signal says so. */
export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask('GET', path, undefined, 'application/json', signal)) as T
}

/** The JSON answer to a POST of JSON. */
export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await ask('POST', path, body, 'application/json', signal)) as T
}

/** The tensors of an answer. */
export async function getTensors(path: string, signal?: AbortSignal): Promise<Tensors> {
  return readSafetensors((await ask('GET', path, undefined, SAFETENSORS, signal)) as ArrayBuffer)
}

/** The very bytes of an answer with tensors. */
export async function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return (await ask('GET', path, undefined, SAFETENSORS, signal)) as ArrayBuffer
}

async function ask(
  method: string, path: string, body: unknown, accept: string, signal?: AbortSignal,
): Promise<unknown> {
  const key = `${method} ${path}`
  if (saved) {
    const answer = saved.responses[key]
    if (!answer) throw new Problem(0, 'not-saved', `The saved page does not hold ${key}.`)
    return answer.base64 === undefined ? answer.json : fromBase64(answer.base64)
  }
  const response = await send(method, path, body, accept, signal)
  if (!response.ok) throw await problemOf(response)
  if (accept === SAFETENSORS) {
    const bytes = await response.arrayBuffer()
    recorded.responses[key] = { base64: toBase64(bytes) }
    return bytes
  }
  const json: unknown = await response.json()
  if (method === 'GET') recorded.responses[key] = { json }
  return json
}

const KEY = 'transduce.key'
let apiKey = ''
try {
  apiKey = sessionStorage.getItem(KEY) ?? ''
} catch {
  // No storage here: the key lasts as long as the page.
}

/** Send this API key from now on; kept for this tab only. */
export function useKey(key: string): void {
  apiKey = key
  try {
    sessionStorage.setItem(KEY, key)
  } catch {
    // As above.
  }
}

async function send(
  method: string, path: string, body: unknown, accept: string, signal?: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = { accept }
  if (apiKey) headers.authorization = `Bearer ${apiKey}`
  if (body !== undefined) headers['content-type'] = 'application/json'
  try {
    return await fetch(new URL(path, document.baseURI), {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal,
    })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, 'unreachable', String(error))
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const retry = Number(response.headers.get('retry-after'))
  const retryAfter = response.headers.has('retry-after') && Number.isFinite(retry) ? retry : null
  let body: Record<string, unknown> = {}
  try {
    body = (await response.json()) as Record<string, unknown>
  } catch {
    // A proxy's HTML page, or nothing: the status says what there is to say.
  }
  const kind = typeof body.type === 'string' ? body.type.split(/[/#:]/).pop()! : ''
  const detail = [body.detail, body.title, response.statusText].find((text) => typeof text === 'string') as string
  return new Problem(response.status, kind, detail, body, retryAfter)
}

export function toBase64(buffer: ArrayBuffer): string {
  const bytes = new Uint8Array(buffer)
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  }
  return btoa(text)
}

export function fromBase64(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer
}
