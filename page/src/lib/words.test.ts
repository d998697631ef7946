import { expect, it } from 'vitest'
import type { Step, Token } from './types'
import { newWords, partners, wordConfidence } from './words'

it('a word’s confidence is the geometric mean of its pieces’', () => {
  const tgt = [null, 0, 0, 1, null].map((word, i) => ({ i, word }) as Token)
  const steps = [0.5, 0.125, 1, 0.9].map((p, i) => ({ predicts: i + 1, logp: Math.log(p) }) as Step)
  const [first, second, none] = wordConfidence(tgt, steps, 3)
  expect(first).toBeCloseTo(0.25, 12)
  expect(second).toBe(1)
  expect(none).toBeNull()
})

it('partners read the pairs from either side', () => {
  const pairs: [number, number][] = [[0, 1], [0, 2], [3, 2]]
  expect(partners(pairs, 0, 0)).toEqual([1, 2])
  expect(partners(pairs, 1, 2)).toEqual([0, 3])
})

it('newWords marks what another translation has not', () => {
  expect(newWords('ein alter mann geht'.split(' '), 'ein mann läuft'.split(' '))).toEqual([false, true, false, true])
  expect(newWords([], ['a'])).toEqual([])
})
