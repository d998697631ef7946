// What the reader looks at, as an address: `#/attention?layer=2&head=1` ⇄ a view and its parameters.
//
// Does not know: the window, the server, what any parameter means.
// Text is in an address only when the reader says so (`text`); otherwise a trace's id stands for it.

export interface Place {
  view: string
  params: Record<string, string>
}

/** The place an address names; an empty or foreign one is the first view. */
export function parseHash(hash: string, views: readonly string[]): Place {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const view = views.includes(path) ? path : views[0]
  return { view, params: Object.fromEntries(new URLSearchParams(query)) }
}

/** The address of a place; parameters in the order of their names, empty ones left out. */
export function formatHash({ view, params }: Place): string {
  const query = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== '').sort(([a], [b]) => (a < b ? -1 : 1)),
  ).toString()
  return `#/${view}${query && `?${query}`}`
}

/** A whole number from a parameter, kept within 0 and `max`. */
export function wholeNumber(value: string | undefined, fallback: number, max: number): number {
  const number = value === undefined || value.trim() === '' ? NaN : Number(value)
  return Number.isInteger(number) ? Math.max(0, Math.min(max, number)) : Math.min(fallback, Math.max(0, max))
}
