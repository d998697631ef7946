// Choosing the next token: a distribution at any temperature, the search's tree, what the cache weighs.
//
// In: what the server says about the steps, and the logits of the whole vocabulary.
// Does not know: the page, the server, languages.
import { stratify, type HierarchyNode } from 'd3-hierarchy'
import type { BeamNode, CacheSide, Candidate, SearchStep, StepDetail } from './answers'

/** What softmax(logits / tau) is made of: its logarithm's normaliser and its entropy, both in nats. */
export function distribution(logits: ArrayLike<number>, tau = 1): { logsumexp: number; entropy: number } {
  let max = -Infinity
  for (let i = 0; i < logits.length; i++) max = Math.max(max, logits[i] / tau)
  let total = 0
  let weighted = 0
  for (let i = 0; i < logits.length; i++) {
    const shifted = logits[i] / tau - max
    const weight = Math.exp(shifted)
    total += weight
    if (weight > 0) weighted += weight * shifted // -inf · 0 would be NaN
  }
  return { logsumexp: max + Math.log(total), entropy: Math.log(total) - weighted / total }
}

export interface NextToken extends Candidate {
  probability: number
}

export interface NextTokens {
  rows: NextToken[]
  /** Of all that are not in `rows`. */
  rest: number
  entropy: number
  /** The largest difference from the server's log-probabilities; null without logits, or at another tau. */
  error: number | null
}

/** The likeliest next tokens at a temperature. Without the logits only tau = 1 can be told. */
export function nextTokens(step: StepDetail, logits: Float32Array | null, tau: number): NextTokens {
  if (!logits) {
    const rows = step.top.map((token) => ({ ...token, probability: Math.exp(token.logp) }))
    return { rows, rest: step.rest, entropy: step.entropy, error: null }
  }
  const { logsumexp, entropy } = distribution(logits, tau)
  // A temperature keeps the order, so the likeliest stay the likeliest.
  const rows = step.top.map((token) => {
    const logp = logits[token.id] / tau - logsumexp
    return { ...token, logp, probability: Math.exp(logp) }
  })
  const rest = Math.max(0, 1 - rows.reduce((sum, row) => sum + row.probability, 0))
  const error = tau === 1 ? Math.max(0, ...rows.map((row, i) => Math.abs(row.logp - step.top[i].logp))) : null
  return { rows, rest, entropy, error }
}

export interface TreeNode extends BeamNode {
  step: number
  /** 0 is the best of its step; those that were kept come before those that were not. */
  rank: number
  x: number
  y: number
  width: number
  /** On the way to the output. */
  isChosen: boolean
  /** The best of those that follow it, or null. */
  next: number | null
}

export interface Tree {
  nodes: Map<number, TreeNode>
  columns: TreeNode[][]
  width: number
  height: number
}

const ROOT: BeamNode = { n: -1, parent: NaN, token: -1, piece: '', text: '', kind: 'root', logp: 0, total: 0, score: 0, state: 'live' }
export const ROW = 44
const LETTER = 9
const GAP = 40
const MARGIN = 12

/** The tree of a search: one column a step, the best of each step on top. Lengths are in pixels. */
export function beamTree(search: SearchStep[], chosen: readonly number[]): Tree {
  const onTheWay = new Set(chosen)
  const root = hierarchyOf(search)
  const nodes = new Map<number, TreeNode>()
  const columns: TreeNode[][] = []
  let x = MARGIN
  for (const { step, nodes: found } of search) {
    const column = [...found].sort((a, b) => Number(a.state === 'pruned') - Number(b.state === 'pruned') || b.score - a.score)
    const width = Math.max(52, ...column.map((node) => lettersOf(node.text) * LETTER + 16))
    columns.push(
      column.map((node, rank) => ({
        ...node, step, rank, x, y: MARGIN + ROW * rank, width, isChosen: onTheWay.has(node.n), next: null,
      })),
    )
    x += width + GAP
  }
  for (const node of columns.flat()) nodes.set(node.n, node)
  root.each((at) => {
    const own = nodes.get(at.data.n)
    const following = (at.children ?? []).map((child) => nodes.get(child.data.n)!)
    if (own) own.next = following.sort((a, b) => a.rank - b.rank)[0]?.n ?? null
  })
  const most = Math.max(0, ...columns.map((column) => column.length))
  return { nodes, columns, width: Math.max(0, x - GAP + MARGIN), height: ROW * most + 2 * MARGIN }
}

function hierarchyOf(search: SearchStep[]): HierarchyNode<BeamNode> {
  return stratify<BeamNode>()
    .id((node) => String(node.n))
    .parentId((node) => (node.n === -1 ? null : String(node.parent)))([ROOT, ...search.flatMap((step) => step.nodes)])
}

// A Han character is as wide as two letters.
function lettersOf(text: string): number {
  return [...text.trim()].reduce((sum, letter) => sum + (/[\u2e80-\uffff]/.test(letter) ? 2 : 1), 0)
}

/** The nodes from the first token to this one. */
export function pathTo(tree: Tree, n: number): TreeNode[] {
  const path: TreeNode[] = []
  for (let at = tree.nodes.get(n); at; at = tree.nodes.get(at.parent)) path.unshift(at)
  return path
}

/** The node an arrow key leads to: left to what it follows, right to the best that follows it, up and down its step. */
export function walkTree(tree: Tree, n: number, key: string): number | null {
  const at = tree.nodes.get(n)
  if (!at) return null
  const column = tree.columns.find((nodes) => nodes.includes(at))!
  const steps: Record<string, () => number | null | undefined> = {
    ArrowLeft: () => (tree.nodes.has(at.parent) ? at.parent : null),
    ArrowRight: () => at.next,
    ArrowUp: () => column[at.rank - 1]?.n,
    ArrowDown: () => column[at.rank + 1]?.n,
    Home: () => tree.columns[0][0].n,
    End: () => [...tree.nodes.values()].filter((node) => node.isChosen).at(-1)?.n,
  }
  return steps[key]?.() ?? null
}

/** How many numbers a side of the cache holds, and the bytes of each. */
export function cacheNumbers(side: CacheSide): { count: number; itemSize: number } {
  const count = [side.keys, side.values].reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0)
  return { count, itemSize: count ? side.bytes / count : 0 }
}
