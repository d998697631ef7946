import { describe, expect, it } from 'vitest'
import { figureOf, moduleName, wrap, type Figure } from './figure'
import type { ModelConfig } from './types'

const config = (more: Partial<ModelConfig>): ModelConfig => ({
  d_model: 128, num_heads: 4, d_k: 32, d_v: 32, d_ff: 256, num_encoder_layers: 4, num_decoder_layers: 2, norm: 'post',
  activation: 'relu', position: 'sinusoidal', source_vocab_size: 10, target_vocab_size: 10, tie: 'all', ...more,
})
const label = (id: string) => id.replace(/[._]/g, ' ')
const ids = (figure: Figure) => figure.boxes.map((box) => box.id)

describe('the figure', () => {
  it('of the paper has Add & Norm above each sub-layer and no norm on top', () => {
    const figure = figureOf(config({}), 600, label)
    expect(figure.boxes.filter((box) => box.kind === 'add_norm')).toHaveLength(5)
    expect(figure.boxes.filter((box) => box.kind === 'norm')).toHaveLength(0)
    expect(figure.residuals).toHaveLength(5)
    const at = (id: string) => figure.boxes.find((box) => box.id === id)!.y
    expect(at('encoder.self_attention_add_norm')).toBeLessThan(at('encoder.self_attention'))
    expect(figure.frames.map((frame) => frame.layers)).toEqual([4, 2])
  })

  it('of a pre-norm model has the norm below each sub-layer, sums above, and a norm on top of each stack', () => {
    const figure = figureOf(config({ norm: 'pre' }), 600, label)
    const at = (id: string) => figure.boxes.find((box) => box.id === id)!.y
    expect(at('encoder.self_attention_add_norm')).toBeGreaterThan(at('encoder.self_attention'))
    expect(figure.sums).toHaveLength(5)
    expect(ids(figure)).toEqual(expect.arrayContaining(['encoder.norm', 'decoder.norm']))
  })

  it('shows which matrices are one', () => {
    expect(figureOf(config({ tie: 'all' }), 600, label).ties).toHaveLength(2)
    expect(figureOf(config({ tie: 'target' }), 600, label).ties).toHaveLength(1)
    expect(figureOf(config({ tie: 'none' }), 600, label).ties).toHaveLength(0)
  })

  it('adds no positions where attention turns them in', () => {
    expect(ids(figureOf(config({ position: 'rotary' }), 600, label)).some((id) => id.endsWith('position'))).toBe(false)
  })

  it('of a decoder alone has nothing to cross to', () => {
    const figure = figureOf(config({ num_encoder_layers: 0 }), 600, label)
    expect(ids(figure)).not.toContain('decoder.cross_attention')
    expect(figure.frames).toHaveLength(1)
  })

  it.each([280, 350, 900])('fits %i pixels, and no two boxes overlap', (width) => {
    for (const norm of ['pre', 'post']) {
      const figure = figureOf(config({ norm }), width, label)
      expect(figure.width).toBeLessThanOrEqual(width)
      for (const box of figure.boxes) {
        expect(box.height).toBeGreaterThanOrEqual(24)
        expect(box.x).toBeGreaterThanOrEqual(0)
        expect(box.x + box.width).toBeLessThanOrEqual(figure.width)
        expect(box.y).toBeGreaterThanOrEqual(0)
        expect(box.y + box.height).toBeLessThanOrEqual(figure.height)
        for (const other of figure.boxes) {
          if (other === box || other.x !== box.x) continue
          expect(other.y + other.height <= box.y || box.y + box.height <= other.y, `${box.id} on ${other.id}`).toBe(true)
        }
      }
    }
  })
})

it('breaks labels at words, and Chinese anywhere', () => {
  expect(wrap('Masked multi-head attention', 90)).toEqual(['Masked', 'multi-head', 'attention'])
  expect(wrap('Norm', 10)).toEqual(['Norm'])
  expect(wrap('multi-head cross-attention', 76)).toEqual(['multi-head', 'cross-', 'attention'])
  expect(wrap('多頭自注意力', 40)).toEqual(['多頭自', '注意力'])
})

it('names the module of a box', () => {
  expect(moduleName('encoder.self_attention', 2)).toBe('encoder.layers.2.self_attention')
  expect(moduleName('decoder.norm', 2)).toBe('decoder.norm')
  expect(moduleName('source_embedding', 2)).toBe('source_embedding')
  expect(moduleName('softmax', 0)).toBeNull()
})
