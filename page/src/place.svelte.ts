// Where the reader is, kept equal to the address (see state.ts).
import { savedHash } from './lib/api'
import { formatHash, parseHash, wholeNumber, type Place } from './state'

/** The views in a newcomer's order; those whose file is not there do not appear. */
const order = [
  'translate', 'story', 'architecture', 'attention', 'positions', 'shapes', 'decoding', 'training', 'code',
] as const

const files = import.meta.glob<{ default: import('svelte').Component }>('./views/*.svelte', { eager: true })
export const components = Object.fromEntries(
  Object.entries(files).map(([path, file]) => [path.match(/(\w+)\.svelte$/)![1].toLowerCase(), file.default]),
)
export const views: string[] = order.filter((view) => view in components)

// What stays when the view changes; all other parameters are one view's own.
const SHARED = ['model', 'trace', 'text', 'kind', 'layer', 'head']

// Safari lets a page change its address 100 times in 30 seconds, then throws; a slider asks for more.
const EVERY = 320

class PlaceState {
  #written = -Infinity
  #later: ReturnType<typeof setTimeout> | undefined
  current = $state.raw<Place>(parseHash(location.hash || savedHash, views))
  view = $derived(this.current.view)

  constructor() {
    addEventListener('pagehide', () => this.#write())
    addEventListener('hashchange', () => {
      clearTimeout(this.#later)
      this.current = parseHash(location.hash, views)
    })
  }

  /** A parameter's text, or '' when the address has none. */
  text(name: string): string {
    return this.current.params[name] ?? ''
  }

  /** A parameter's whole number within 0..max. */
  number(name: string, fallback: number, max: number): number {
    return wholeNumber(this.current.params[name], fallback, max)
  }

  /** A parameter's number as it stands, or the fallback. */
  real(name: string, fallback: number): number {
    const value = Number(this.current.params[name])
    return this.text(name) !== '' && Number.isFinite(value) ? value : fallback
  }

  /** A parameter that is one of these. */
  choice<T extends string>(name: string, choices: readonly T[], fallback: T): T {
    return choices.find((choice) => choice === this.current.params[name]) ?? fallback
  }

  /** The address of a view, with what stays and with these parameters. */
  link(view: string, params: Record<string, string | number> = {}): string {
    const kept = Object.entries(this.current.params).filter(([name]) => SHARED.includes(name))
    return formatHash({ view, params: { ...Object.fromEntries(kept), ...strings(params) } })
  }

  /** Change parameters of this view; '' takes one away. No step in the browser's history. */
  set(params: Record<string, string | number>): void {
    this.current = { view: this.view, params: { ...this.current.params, ...strings(params) } }
    clearTimeout(this.#later)
    const wait = EVERY - (performance.now() - this.#written)
    if (wait <= 0) this.#write()
    else this.#later = setTimeout(() => this.#write(), wait)
  }

  #write(): void {
    clearTimeout(this.#later)
    this.#written = performance.now()
    const hash = formatHash(this.current)
    if (location.hash !== hash) history.replaceState(null, '', hash)
  }
}

function strings(params: Record<string, string | number>): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]))
}

export const place = new PlaceState()
