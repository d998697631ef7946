import { expect, it } from 'vitest'
import { asModel, check, isAsModel, maskOf, products } from './attention'
import { attentionWeights, scaledScores } from './tensor'
import type { Token } from './types'

const keys = [
  { kind: 'bos', text: '<s>' }, { kind: 'text', text: ' cat' }, { kind: 'text', text: ' .' },
] as Token[]
const causal = new Uint8Array([1, 0, 0, 1, 1, 0, 1, 1, 1])
const rows = (mask: Uint8Array) => [0, 1, 2].map((row) => Array.from(mask.subarray(3 * row, 3 * row + 3)).join(''))

it('unchanged, the mask is the model’s', () => {
  expect(maskOf('dec_self', causal, keys, asModel('dec_self'))).toEqual(causal)
  const all = new Uint8Array(9).fill(1)
  expect(maskOf('enc_self', all, keys, asModel('enc_self'))).toEqual(all)
  expect(isAsModel('dec_self', asModel('dec_self'))).toBe(true)
})

it('the causal switch lifts the decoder’s mask, and lays one over the encoder', () => {
  expect(rows(maskOf('dec_self', causal, keys, { ...asModel('dec_self'), causal: false }))).toEqual(['111', '111', '111'])
  const all = new Uint8Array(9).fill(1)
  expect(rows(maskOf('enc_self', all, keys, { ...asModel('enc_self'), causal: true }))).toEqual(['100', '110', '111'])
})

it('padding, ends and punctuation are hidden as columns', () => {
  const all = new Uint8Array(9).fill(1)
  const model = asModel('cross')
  expect(rows(maskOf('cross', all, keys, { ...model, padding: 1 }))[0]).toBe('110')
  expect(rows(maskOf('cross', all, keys, { ...model, padding: 1, paddingMask: false }))[0]).toBe('111')
  expect(rows(maskOf('cross', all, keys, { ...model, hideEnds: true }))[0]).toBe('011')
  expect(rows(maskOf('cross', all, keys, { ...model, hidePunctuation: true }))[0]).toBe('110')
  expect(isAsModel('cross', { ...model, padding: 1, paddingMask: false })).toBe(true)
  expect(isAsModel('cross', { ...model, padding: 1 })).toBe(false)
})

it('a padded source stays hidden whatever the switch says', () => {
  const padded = new Uint8Array([1, 1, 0, 1, 1, 0, 1, 1, 0])
  expect(maskOf('cross', padded, keys, asModel('cross'))).toEqual(padded)
})

it('check finds what does not add up', () => {
  const q = { shape: [2, 4], data: new Float32Array([1, 2, 0, 1, 0, 1, 1, 3]) }
  const k = { shape: [2, 4], data: new Float32Array([1, 0, 2, 1, 3, 1, 0, 1]) }
  const scores = scaledScores(q, k)
  const mask = { shape: [2, 2], data: new Uint8Array([1, 0, 1, 1]) }
  const weights = attentionWeights(scores, 2, 2, { mask: mask.data })
  const head = (more = {}) => ({
    bytes: new ArrayBuffer(0), metadata: {},
    tensors: { q, k, mask, scores: { shape: [2, 2], data: scores }, weights: { shape: [2, 2], data: weights }, ...more },
  })
  expect(check(head())).toEqual({ weights: 0, scores: 0 })
  const wrong = check(head({ weights: { shape: [2, 2], data: new Float32Array([0.5, 0.5, 0.5, 0.5]) } }))
  expect(wrong.weights).toBeCloseTo(0.5, 6)
  const halved = head({ scores: { shape: [2, 2], data: scores.map((score) => score * 2) } })
  expect(check({ ...halved, metadata: { tau: '0.5' } }).scores).toBeCloseTo(0, 6)
})

it('products are those of one query and one key', () => {
  const q = { shape: [2, 2], data: new Float32Array([0, 0, 2, 3]) }
  const k = { shape: [1, 2], data: new Float32Array([5, 7]) }
  expect(Array.from(products(q, k, 1, 0))).toEqual([2, 3, 5, 7, 10, 21])
})
