// The walk of one pass, in groups; which entries and parameters belong to a box of the figure.
//
// Does not know: the page, languages.
import type { ShapeEntry, Shapes } from './answers'
import { moduleName } from './figure'
import type { ModuleNode } from './types'

/** The module with this name, or null. */
export function findModule(root: ModuleNode, name: string): ModuleNode | null {
  if (root.name === name) return root
  for (const child of root.children) {
    const found = findModule(child, name)
    if (found) return found
  }
  return null
}

export interface ParameterRow {
  /** Without the module's own name. */
  name: string
  shape: number[]
  tied_to: string | null
  count: number
}

/** All parameters of a module and of those within it. */
export function parametersOf(module: ModuleNode): ParameterRow[] {
  const rows: ParameterRow[] = []
  const visit = (node: ModuleNode): void => {
    const inner = node.name === module.name ? '' : `${node.name.slice(module.name.length + 1)}.`
    for (const { name, shape, tied_to } of node.parameters) {
      rows.push({ name: inner + name, shape, tied_to, count: shape.reduce((product, size) => product * size, 1) })
    }
    node.children.forEach(visit)
  }
  visit(module)
  return rows
}

/** The entries of the walk that a box of the figure stands for, in a layer. */
export function entriesOf({ walk }: Shapes, box: string, layer: number): ShapeEntry[] {
  const prefix = box === 'softmax' ? 'probabilities' : moduleName(box, layer)!
  return walk.filter(({ name }) => name === prefix || name.startsWith(`${prefix}.`))
}

export interface Group {
  stack: ShapeEntry['stack']
  part: string
  layer: number | null
  entries: ShapeEntry[]
}

/**
 * The walk in runs of one stack, part and layer, each run in the order of the pass; of the layers only `layer`.
 * The keys and values that the decoder makes of the source stand with their cross-attention.
 */
export function groupsOf({ walk }: Shapes, layer: number): Group[] {
  const groups = new Map<string, Group>()
  const early: ShapeEntry[] = []
  for (const entry of walk) {
    if (entry.layer !== null && entry.layer !== clamped(layer, entry.stack, walk)) continue
    const key = `${entry.stack}/${entry.part}/${entry.layer ?? ''}`
    // Made once a source, before the decoder's first layer: shown where they are used.
    if (entry.part === 'cross_attention' && !groups.has(`${entry.stack}/self_attention/${entry.layer ?? ''}`)) {
      early.push(entry)
      continue
    }
    let group = groups.get(key)
    if (!group) {
      const { stack, part, layer: at } = entry
      const own = part === 'cross_attention' ? early.splice(0) : []
      groups.set(key, (group = { stack, part, layer: at, entries: own }))
    }
    group.entries.push(entry)
  }
  return [...groups.values()]
}

/** A stack with fewer layers shows its last. */
function clamped(layer: number, stack: string, walk: ShapeEntry[]): number {
  const last = Math.max(...walk.filter((entry) => entry.stack === stack).map((entry) => entry.layer ?? 0))
  return Math.min(layer, last)
}

/** `h·d_k` as it may stand in a catalogue's key. */
export function axisKey(symbol: string): string {
  return symbol.replace('·', '-')
}

/** How large a tensor is drawn: rows and columns of its last two axes on a log scale, and how many such leaves. */
export function glyphOf(shape: number[]): { width: number; height: number; leaves: number } {
  const [rows, cols] = shape.length > 1 ? shape.slice(-2) : [1, shape[0] ?? 1]
  const side = (size: number, most: number) => Math.min(most, 2 + 4 * Math.log2(Math.max(1, size)))
  const leaves = shape.slice(0, -2).reduce((product, size) => product * size, 1)
  return { width: side(cols, 50), height: side(rows, 26), leaves: Math.min(8, leaves) }
}
