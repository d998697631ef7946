import { expect, it } from 'vitest'
import { allNames, countAwake, stacked, storyNames, strongestKeys, vectorOf, type WalkEntry } from './story'

const entry = (name: string, layer: number | null = null, stack = 'encoder'): WalkEntry => ({ name, stack, layer, shape: [] })
const layer = (n: number) => [
  entry(`encoder.layers.${n}.self_attention.weights`, n), entry(`encoder.layers.${n}.feed_forward_add_norm.residual`, n),
]
const walk = [
  entry('source_embedding.scaled'), entry('source_position.sum'), ...layer(0), ...layer(1),
  entry('decoder.layers.0.feed_forward_add_norm.norm', 0, 'decoder'),
]

it('a layer’s story ends each layer with what it computed last', () => {
  const names = storyNames(walk, 1)!
  expect(names.after).toEqual([0, 1].map((n) => `encoder.layers.${n}.feed_forward_add_norm.residual`))
  expect(names.weights).toBe('encoder.layers.1.self_attention.weights')
  expect([names.sum, names.table]).toEqual(['source_position.sum', null])
  expect(allNames(names)).not.toContain(null)
  expect(new Set(allNames(names)).size).toBe(allNames(names).length)
})

it('a layer that is not there has no story', () => {
  expect(storyNames(walk, 2)).toBeNull()
})

// Two heads, two tokens, two keys.
const weights = { shape: [1, 2, 2, 2], data: new Float32Array([0.9, 0.1, 0.2, 0.8, 0.5, 0.5, 0.7, 0.3]) }

it('a vector is a token’s row of its head', () => {
  expect(Array.from(vectorOf(weights, 1, 1))).toEqual(Array.from(new Float32Array([0.7, 0.3])))
  expect(Array.from(vectorOf({ shape: [1, 2, 3], data: new Float32Array([0, 1, 2, 3, 4, 5]) }, 1))).toEqual([3, 4, 5])
})

it('strongest keys are found head by head', () => {
  expect(strongestKeys(weights, 1).map(({ key }) => key)).toEqual([1, 0])
})

it('awake units are those above zero', () => {
  expect(countAwake(new Float32Array([0, -1, 0.1, 2]))).toBe(2)
})

it('stacked puts rows under one another', () => {
  expect(Array.from(stacked([new Float32Array([1, 2]), new Float32Array([3, 4])]))).toEqual([1, 2, 3, 4])
})
