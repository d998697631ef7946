// A problem in the reader's words.
import { catalogues } from '../i18n/catalogue'
import type { Values } from '../i18n/catalogue'
import type { Problem } from './api'

const BY_STATUS: Record<number, string> = {
  0: 'unreachable', 401: 'unauthorized', 403: 'forbidden', 404: 'gone', 413: 'tooLong', 422: 'invalid', 429: 'busy', 501: 'noTorch',
  502: 'unreachable', 503: 'notReady', 504: 'slow',
}
const BY_KIND: Record<string, string> = { 'not-saved': 'notSaved', page: 'page' }

/** The catalogue's key for a problem, and the values it is filled in with. */
export function problemKey(problem: Problem): { key: string; values: Values } {
  const name = BY_KIND[problem.kind] ?? BY_STATUS[problem.status] ?? (problem.status >= 500 ? 'server' : 'other')
  const key = `problem.${name}`
  if (!(key in catalogues.en)) throw new Error(`no text for ${key}`)
  return { key, values: { status: problem.status, seconds: problem.retryAfter ?? 1 } }
}
