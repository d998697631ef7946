// One word's way through the model: which tensors of the walk tell it, and its row of each.
//
// In:  the walk (names in the order of the pass), the tensors by name. Out: names, rows, figures.
// Does not know: the page, the server.
import type { Tensor, Tensors } from './tensor'

export interface WalkEntry {
  name: string
  stack: string
  layer: number | null
  shape: number[]
}

export interface StoryNames {
  scaled: string
  /** Missing where positions turn queries and keys instead of being added. */
  table: string | null
  sum: string | null
  queries: string
  keys: string
  values: string
  weights: string
  /** What attention found, before it is added to what was there. */
  found: string
  inner: string
  /** The word's vector as each layer of the encoder leaves it. */
  after: string[]
}

/** The names that the story of an encoder layer needs; null when the walk has no such layer. */
export function storyNames(walk: WalkEntry[], layer: number): StoryNames | null {
  const has = new Set(walk.map((entry) => entry.name))
  const attention = `encoder.layers.${layer}.self_attention`
  if (!has.has(`${attention}.weights`)) return null
  const layers = 1 + Math.max(...walk.filter((entry) => entry.stack === 'encoder').map((entry) => entry.layer ?? -1))
  const lastOf = (at: number) => walk.filter((entry) => entry.stack === 'encoder' && entry.layer === at).at(-1)!.name
  const optional = (name: string) => (has.has(name) ? name : null)
  return {
    scaled: 'source_embedding.scaled',
    table: optional('source_position.table'),
    sum: optional('source_position.sum'),
    queries: `${attention}.queries`,
    keys: `${attention}.keys`,
    values: `${attention}.values`,
    weights: `${attention}.weights`,
    found: `${attention}.output`,
    inner: `encoder.layers.${layer}.feed_forward.inner`,
    after: Array.from({ length: layers }, (_, at) => lastOf(at)),
  }
}

/** All names of a story, each once. */
export function allNames(names: StoryNames): string[] {
  const { after, ...single } = names
  return [...new Set([...Object.values(single), ...after].filter((name) => name !== null))]
}

/** A token's row of a tensor whose last two axes are (token, width); with heads, that head's. */
export function vectorOf(tensor: Tensor, token: number, head = 0): Float32Array {
  const width = tensor.shape.at(-1)!
  const tokens = tensor.shape.at(-2)!
  const start = (head * tokens + token) * width
  return (tensor.data as Float32Array).subarray(start, start + width)
}

/** Where a token looks, head by head: the largest weight of its row and the key it lies on. */
export function strongestKeys(weights: Tensor, token: number): { head: number; key: number; weight: number }[] {
  const heads = weights.shape.at(-3) ?? 1
  return Array.from({ length: heads }, (_, head) => {
    const row = vectorOf(weights, token, head)
    let key = 0
    for (let i = 1; i < row.length; i++) if (row[i] > row[key]) key = i
    return { head, key, weight: row[key] }
  })
}

/** How many of a vector's values are above zero: the units of a feed-forward layer that a ReLU lets through. */
export function countAwake(values: Float32Array): number {
  return values.reduce((count, value) => count + (value > 0 ? 1 : 0), 0)
}

/** Vectors of equal width under one another. */
export function stacked(vectors: Float32Array[]): Float32Array {
  const width = vectors[0].length
  const out = new Float32Array(vectors.length * width)
  vectors.forEach((vector, row) => out.set(vector, row * width))
  return out
}

/** The tensors of a story under the names of their parts. */
export function partsOf(names: StoryNames, tensors: Tensors) {
  const need = (name: string) => tensors[name]
  return {
    scaled: need(names.scaled),
    table: names.table ? need(names.table) : null,
    sum: names.sum ? need(names.sum) : null,
    queries: need(names.queries),
    keys: need(names.keys),
    values: need(names.values),
    weights: need(names.weights),
    found: need(names.found),
    inner: need(names.inner),
    after: names.after.map(need),
  }
}
