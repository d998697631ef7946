// The reader's model and the sentence they look into: one trace, and what was asked about it.
//
// Views read `session.model` and `session.trace`, and ask for tensors by `head`, `overview`, `json`.
import { getBytes, getJson, isSaved, postJson, Problem } from './lib/api'
import { readMetadata, readSafetensors, type Tensors } from './lib/tensor'
import type { ServiceAnswer } from './lib/shown'
import type { Kind, Model, SearchSettings, Trace } from './lib/types'
import { place } from './place.svelte'

export interface WhatIf {
  ablate?: { kind: Kind; layer: number; head: number }[]
  tau?: { kind: Kind; layer: number | null; tau: number }[]
  mask?: { kind: Kind; layer: number | null; hide?: number[]; causal?: boolean }[]
  force?: number[]
  fixed?: boolean
}

/** Tensors, and what they are of: a view draws an answer under these names, never under the newest ones. */
export interface HeadTensors {
  tensors: Tensors
  /** As the server sent them: what a reader downloads. */
  bytes: ArrayBuffer
  /** What the server says about them. */
  metadata: Record<string, string>
}

// Trained readers' own sentences take their place; these are only where somebody has typed none.
const FIRST_SENTENCES: Record<string, string> = {
  en: 'The animal didn’t cross the street because it was too tired.',
  de: 'Das Tier überquerte die Straße nicht, weil es zu müde war.',
  fr: 'L’animal n’a pas traversé la rue parce qu’il était trop fatigué.',
  es: 'El animal no cruzó la calle porque estaba demasiado cansado.',
  zh: '我爱你。',
}
const KEPT_ANSWERS = 24
const MOST_POSITIONS = 128

export interface OneHead extends HeadTensors {
  trace: Trace
  kind: Kind
  layer: number
  head: number
}

export interface AllHeads extends HeadTensors {
  trace: Trace
  kind: Kind
}

class Session {
  model = $state.raw<Model | null>(null)
  modelProblem = $state.raw<Problem | null>(null)
  trace = $state.raw<Trace | null>(null)
  /** A translation that cannot be looked into: this server has no PyTorch, or only an export. */
  plain = $state.raw<ServiceAnswer | null>(null)
  /** What the last question about a sentence failed with. */
  problem = $state.raw<Problem | null>(null)
  busy = $state(false)
  /** What stands in the input. */
  text = $state('')
  /** Changes to the model's own search. */
  decode = $state<Partial<SearchSettings>>({ n_best: 4 })

  #abort: AbortController | null = null
  #answers = new Map<string, Promise<unknown>>()

  sourceLang = $derived(this.model?.languages.source ?? null)
  targetLang = $derived(this.model?.languages.target ?? null)

  /** Ask for the model, then for the sentence that the address, this tab or the language gives. */
  async start(): Promise<void> {
    this.modelProblem = null
    try {
      this.model = await this.#describe()
    } catch (error) {
      this.modelProblem = asProblem(error)
      return
    }
    const source = this.sourceLang?.split(/[-_]/)[0] || 'en'
    this.text = place.text('text') || kept() || (FIRST_SENTENCES[source] ?? '')
    const id = this.model.available ? place.text('trace') : ''
    if (id && (await this.#reopen(id))) return
    if (this.text.trim() && !isSaved) await this.look()
  }

  /** A path with the model that the address names, where the server has several. */
  path(path: string): string {
    const name = place.text('model')
    return name ? `${path}${path.includes('?') ? '&' : '?'}model=${encodeURIComponent(name)}` : path
  }

  async #describe(): Promise<Model> {
    const model = await getJson<Model>(this.path('api/v1/model'))
    if (model.available) return model
    // What cannot be looked into still says what it translates.
    const { models } = await getJson<{ models: { name: string; source: string; target: string }[] }>('api/v1/models')
    const own = models.find(({ name }) => name === model.name) ?? models[0]
    return { ...model, languages: { source: own?.source || null, target: own?.target || null } }
  }

  /** Look into another of the server's models, at the same sentence. */
  async choose(name: string): Promise<void> {
    place.set({ model: name, trace: '', kind: '', layer: '', head: '' })
    this.trace = this.plain = null
    this.#answers.clear()
    const text = this.text
    await this.start()
    this.text = text
  }

  async #reopen(id: string): Promise<boolean> {
    this.busy = true
    try {
      this.trace = await getJson<Trace>(`api/v1/traces/${encodeURIComponent(id)}`)
      this.text = this.trace.text
      return true
    } catch (error) {
      // It left the server's memory: the text, if we have it, makes it anew.
      if (isSaved || asProblem(error).status !== 404) this.problem = asProblem(error)
      return isSaved
    } finally {
      this.busy = false
    }
  }

  /** Translate the text and look inside; the trace before stays until the new one is there. */
  async look(more: { target?: string; force?: number[] } = {}): Promise<void> {
    keep(this.text)
    if (!this.model?.available) return await this.#translate()
    const body = { text: this.text, decode: this.decode, ...more }
    await this.#become(() => ({ path: this.path('api/v1/traces'), body }))
  }

  async #translate(): Promise<void> {
    const { source, target } = this.model!.languages
    const languages = this.model!.models.length > 1 ? { source, target } : {}
    await this.#asking(async (signal) => {
      const body = { text: this.text, alignment: true, details: true, n_best: 4, beam_size: 4, ...languages }
      this.plain = await postJson<ServiceAnswer>('api/v1/translate', body, signal)
    })
  }

  /** Run the model again with a change, and show what comes of it. */
  async whatIf(change: WhatIf): Promise<void> {
    const trace = this.trace
    if (trace) await this.#become(() => ({ path: `api/v1/traces/${trace.id}/what-if`, body: change }))
  }

  /** The same question without showing it: for a view that compares. */
  async tryWhatIf(change: WhatIf): Promise<Trace> {
    return await postJson<Trace>(`api/v1/traces/${this.trace!.id}/what-if`, change)
  }

  /** Show a trace by its id (the one before a what-if, say). */
  async open(id: string): Promise<void> {
    if (await this.#reopen(id)) place.set({ trace: id })
  }

  async #become(ask: () => { path: string; body: unknown }): Promise<void> {
    await this.#asking(async (signal) => {
      const { path, body } = ask()
      const trace = await postJson<Trace>(path, body, signal)
      this.trace = trace
      this.text = trace.text
      place.set({ trace: trace.id, text: place.text('text') ? trace.text : '' })
    })
  }

  /** One question at a time: a newer one lets the older go. */
  async #asking(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#abort?.abort()
    const abort = (this.#abort = new AbortController())
    this.busy = true
    this.problem = null
    try {
      await work(abort.signal)
    } catch (error) {
      if (!abort.signal.aborted) this.problem = asProblem(error)
    } finally {
      if (this.#abort === abort) this.busy = false
    }
  }

  /** Stop waiting for an answer. */
  cancel(): void {
    this.#abort?.abort()
    this.busy = false
  }

  /** One head's scores, mask, weights, q, k, v. */
  async head(kind: Kind, layer: number, head: number, trace: Trace = this.trace!): Promise<OneHead> {
    const answer = await this.tensors(`api/v1/traces/${trace.id}/head?kind=${kind}&layer=${layer}&head=${head}`)
    return { ...answer, trace, kind, layer, head }
  }

  /** All heads of a kind, small, with their figures. */
  async overview(kind: Kind, trace: Trace = this.trace!): Promise<AllHeads> {
    return { ...(await this.tensors(`api/v1/traces/${trace.id}/overview?kind=${kind}`)), trace, kind }
  }

  /** The model's own positions, as many as the page ever shows: sliders only cut from them. */
  positions(): Promise<HeadTensors> {
    const length = Math.min(MOST_POSITIONS, this.model?.limits.positions ?? MOST_POSITIONS)
    return this.tensors(this.path(`api/v1/positions?length=${length}`))
  }

  /** Tensors at a path, kept: a trace never changes. */
  tensors(path: string): Promise<HeadTensors> {
    return this.#kept(path, async () => {
      const bytes = await getBytes(path)
      return { bytes, tensors: readSafetensors(bytes), metadata: readMetadata(bytes) }
    })
  }

  /** JSON at a path below the trace (`shapes`, `steps?k=10`, …), kept. */
  json<T>(path: string, trace: Trace = this.trace!): Promise<T> {
    return this.#kept(`api/v1/traces/${trace.id}/${path}`, (whole) => getJson<T>(whole))
  }

  #kept<T>(path: string, ask: (path: string) => Promise<T>): Promise<T> {
    let answer = this.#answers.get(path) as Promise<T> | undefined
    if (!answer) {
      answer = ask(path)
      // A failed answer must not stay: asking again is how a reader retries.
      answer.catch(() => this.#answers.delete(path))
    }
    this.#answers.delete(path)
    this.#answers.set(path, answer) // the newest last, so that the oldest goes first
    if (this.#answers.size > KEPT_ANSWERS) this.#answers.delete(this.#answers.keys().next().value!)
    return answer
  }
}

export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, 'page', error instanceof Error ? error.message : String(error))
}

// In this tab only, and never in the address or on the server.
function kept(): string {
  try {
    return sessionStorage.getItem('transduce.text') ?? ''
  } catch {
    return ''
  }
}

function keep(text: string): void {
  try {
    sessionStorage.setItem('transduce.text', text)
  } catch {
    // Refused: then a refresh forgets it.
  }
}

export const session = new Session()
