import { expect, it } from 'vitest'
import { pairColumns, pairOf, rotation, similarity, type PositionTable } from './positions'

function sinusoid(variant: 'interleaved' | 'concatenated', length = 12, width = 8): PositionTable {
  const table = new Float32Array(length * width)
  for (let position = 0; position < length; position++) {
    for (let pair = 0; pair < width / 2; pair++) {
      const angle = position / 10000 ** ((2 * pair) / width)
      const [sine, cosine] = pairColumns(variant, width, pair)
      table[position * width + sine] = Math.sin(angle)
      table[position * width + cosine] = Math.cos(angle)
    }
  }
  return { kind: 'sinusoidal', variant, table, length, width, base: 10000 }
}

it.each(['interleaved', 'concatenated'] as const)('a shift turns each pair of a %s table', (variant) => {
  const table = sinusoid(variant)
  for (let pair = 0; pair < 4; pair++) {
    const found = rotation(table, pairColumns(variant, 8, pair), 5)
    expect(found.angle).toBeCloseTo(1 / 10000 ** ((2 * pair) / 8), 5)
    expect(found.error).toBeLessThan(1e-5)
  }
})

it('what is no rotation is found out', () => {
  const table = sinusoid('interleaved')
  table.table[5 * 8] += 0.5
  expect(rotation(table, [0, 1], 2).error).toBeGreaterThan(0.1)
})

it('every column has its pair', () => {
  for (const variant of ['interleaved', 'concatenated']) {
    for (let column = 0; column < 8; column++) {
      expect(pairColumns(variant, 8, pairOf(variant, 8, column))).toContain(column)
    }
  }
})

it('a position is most like itself, and as like one neighbour as the other', () => {
  const found = similarity(sinusoid('interleaved'))
  const at = (a: number, b: number) => found[a * 12 + b]
  expect(at(5, 5)).toBeCloseTo(1, 6)
  expect(at(5, 4)).toBeCloseTo(at(5, 6), 6)
  expect(at(5, 6)).toBeGreaterThan(at(5, 8))
})
