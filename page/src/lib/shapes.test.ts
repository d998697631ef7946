import { describe, expect, it } from 'vitest'
import type { ShapeEntry, Shapes } from './answers'
import { axisKey, entriesOf, findModule, glyphOf, groupsOf, parametersOf } from './shapes'
import type { ModuleNode } from './types'

let n = 0
const entry = (name: string, stack: ShapeEntry['stack'], part: string, layer: number | null): ShapeEntry =>
  ({ n: n++, name, stack, part, layer, shape: [1, 2], symbolic: ['B', 'S'] }) as unknown as ShapeEntry
const shapes = {
  symbols: {},
  walk: [
    entry('source_embedding.ids', 'encoder', 'embedding', null),
    entry('encoder.layers.0.self_attention.w_q', 'encoder', 'self_attention', 0),
    entry('encoder.layers.1.self_attention.w_q', 'encoder', 'self_attention', 1),
    entry('encoder.layers.0.self_attention_add_norm.norm', 'encoder', 'self_attention', 0),
    entry('decoder.layers.0.cross_attention.w_k', 'decoder', 'cross_attention', 0),
    entry('decoder.layers.0.self_attention.w_q', 'decoder', 'self_attention', 0),
    entry('decoder.layers.0.cross_attention.w_q', 'decoder', 'cross_attention', 0),
    entry('probabilities', 'output', 'output', null),
  ],
} satisfies Shapes

describe('the walk', () => {
  it('shows one layer, and a stack with fewer layers its last', () => {
    const names = groupsOf(shapes, 1).flatMap((group) => group.entries.map((one) => one.name))
    expect(names).toContain('encoder.layers.1.self_attention.w_q')
    expect(names).not.toContain('encoder.layers.0.self_attention.w_q')
    expect(names).toContain('decoder.layers.0.self_attention.w_q')
  })

  it('shows the source’s keys where they are used', () => {
    const groups = groupsOf(shapes, 0)
    expect(groups.map((group) => `${group.stack} ${group.part}`)).toEqual([
      'encoder embedding', 'encoder self_attention', 'decoder self_attention', 'decoder cross_attention', 'output output',
    ])
    expect(groups[3].entries.map((one) => one.name.split('.').at(-1))).toEqual(['w_k', 'w_q'])
  })

  it('gives a box its own entries, not those of a name that begins alike', () => {
    expect(entriesOf(shapes, 'encoder.self_attention', 0).map((one) => one.name)).toEqual(['encoder.layers.0.self_attention.w_q'])
    expect(entriesOf(shapes, 'softmax', 0)).toHaveLength(1)
  })
})

describe('modules', () => {
  const leaf = (name: string, tied_to: string | null = null): ModuleNode => ({
    name, class: 'Linear', component: 'Linear', formula: null, num_parameters: 6, source: null, children: [],
    parameters: [{ name: 'weight', shape: [2, 3], tied_to }],
  })
  const root: ModuleNode = { ...leaf(''), parameters: [], children: [{ ...leaf('a'), parameters: [], children: [leaf('a.w_q'), leaf('a.w_o', 'e.weight')] }] }

  it('are found by name', () => {
    expect(findModule(root, 'a.w_o')?.parameters[0].tied_to).toBe('e.weight')
    expect(findModule(root, 'b')).toBeNull()
  })

  it('list the parameters within them', () => {
    expect(parametersOf(findModule(root, 'a')!)).toEqual([
      { name: 'w_q.weight', shape: [2, 3], tied_to: null, count: 6 },
      { name: 'w_o.weight', shape: [2, 3], tied_to: 'e.weight', count: 6 },
    ])
  })
})

it('draws heads as leaves', () => {
  expect(glyphOf([1, 4, 16, 32]).leaves).toBe(4)
  expect(glyphOf([1, 16, 128]).leaves).toBe(1)
  expect(glyphOf([1, 16, 4000]).width).toBeGreaterThan(glyphOf([1, 16, 128]).width)
  expect(glyphOf([5]).leaves).toBe(1)
})

it('names an axis for the catalogue', () => expect(axisKey('h·d_k')).toBe('h-d_k'))
