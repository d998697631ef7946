import { describe, expect, it } from 'vitest'
import {
  attentionWeights, entropy, largest, maxError, maxPool, readMetadata, readSafetensors, scaledScores, weightedSum, writeSafetensors,
} from './tensor'

describe('safetensors', () => {
  it('reads what it wrote, whatever the offsets', () => {
    const tensors = {
      mask: { shape: [3], data: new Uint8Array([1, 0, 1]) },
      weights: { shape: [2, 2], data: new Float32Array([0.25, 0.75, -1, 1e-9]) },
      ids: { shape: [1], data: new Int32Array([-7]) },
    }
    const bytes = writeSafetensors(tensors)
    expect(readSafetensors(bytes.buffer)).toEqual(tensors)
  })

  it('reads what a file says about itself', () => {
    const bytes = writeSafetensors({ x: { shape: [1], data: new Float32Array(1) } }, { tau: '0.5' })
    expect(readMetadata(bytes.buffer)).toEqual({ tau: '0.5' })
    expect(Object.keys(readSafetensors(bytes.buffer))).toEqual(['x'])
    expect(readMetadata(writeSafetensors({}).buffer)).toEqual({})
  })

  it('reads bytes laid out by hand', () => {
    const header = new TextEncoder().encode('{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}')
    const bytes = new Uint8Array(8 + header.length + 4)
    bytes[0] = header.length
    bytes.set(header, 8)
    new DataView(bytes.buffer).setFloat32(8 + header.length, 2.5, true)
    expect(readSafetensors(bytes.buffer).x.data[0]).toBe(2.5)
  })

  it('says what is wrong', () => {
    expect(() => readSafetensors(new ArrayBuffer(3))).toThrow('3 bytes')
    const bytes = writeSafetensors({ x: { shape: [2], data: new Float32Array(1) } })
    expect(() => readSafetensors(bytes.buffer)).toThrow('1 values for the shape [2]')
    const half = new TextEncoder().encode('{"x":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}')
    const file = new Uint8Array(8 + half.length)
    file[0] = half.length
    file.set(half, 8)
    expect(() => readSafetensors(file.buffer)).toThrow('F16')
  })
})

describe('attentionWeights', () => {
  const scores = new Float32Array([1, 2, 3, 0, 0, 0])

  it('gives rows that sum to 1', () => {
    const weights = attentionWeights(scores, 2, 3)
    expect(weights[0]).toBeCloseTo(Math.exp(1) / (Math.exp(1) + Math.exp(2) + Math.exp(3)), 6)
    expect(weights[0] + weights[1] + weights[2]).toBeCloseTo(1, 6)
    expect(weights[4]).toBeCloseTo(1 / 3, 6)
  })

  it('gives hidden cells exactly 0, and zeros where nothing is to be seen', () => {
    const mask = new Uint8Array([1, 1, 0, 0, 0, 0])
    expect(Array.from(attentionWeights(scores, 2, 3, { mask })).slice(2)).toEqual([0, 0, 0, 0])
  })

  it('puts all on the largest score when tau is small, and stays finite', () => {
    const weights = attentionWeights(new Float32Array([500, 1, -500]), 1, 3, { tau: 0.01 })
    expect(weights[0]).toBeGreaterThan(0.99)
    expect(Array.from(weights).every(Number.isFinite)).toBe(true)
  })

  it('divides by tau', () => {
    const half = attentionWeights(new Float32Array([2, 4]), 1, 2, { tau: 2 })
    expect(maxError(half, attentionWeights(new Float32Array([1, 2]), 1, 2))).toBeLessThan(1e-7)
  })
})

it('scaledScores is q·k/√d_k', () => {
  const q = { shape: [1, 4], data: new Float32Array([1, 2, 3, 4]) }
  const k = { shape: [2, 4], data: new Float32Array([1, 1, 1, 1, 0, 0, 0, 2]) }
  expect(Array.from(scaledScores(q, k))).toEqual([5, 4])
})

it('weightedSum mixes the rows of v', () => {
  const v = { shape: [2, 2], data: new Float32Array([1, 0, 0, 10]) }
  expect(Array.from(weightedSum(new Float32Array([0.5, 0.5]), v).data)).toEqual([0.5, 5])
})

it('maxPool keeps the largest of each block and never grows a map', () => {
  expect(Array.from(maxPool([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, 3, 2).values)).toEqual([5, 6, 8, 9])
  expect(maxPool([1, 2], 1, 2, 32)).toEqual({ rows: 1, cols: 2, values: new Float32Array([1, 2]) })
})

it('entropy of an even choice among n is ln n, of a sure one 0', () => {
  expect(entropy([0.25, 0.25, 0.25, 0.25])).toBeCloseTo(Math.log(4), 12)
  expect(entropy([0, 1, 0])).toBe(0)
})

it('maxError lets no NaN pass', () => {
  expect(maxError([1, NaN], [1, 2])).toBeNaN()
})

it('largest breaks ties by place', () => {
  expect(largest([1, 3, 3, 2], 3)).toEqual([1, 2, 3])
})
