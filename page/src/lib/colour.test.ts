import { expect, it } from 'vitest'
import { colour, extentOf, inkOn, luminance, paint, step } from './colour'

const rgb = (css: string) => css.match(/\d+/g)!.map(Number)
const contrast = (a: number, b: number) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)

it('weights only grow lighter', () => {
  const lightness = Array.from({ length: 101 }, (_, i) => luminance(rgb(colour(i / 100, 'weight'))))
  lightness.slice(1).forEach((value, i) => expect(value).toBeGreaterThanOrEqual(lightness[i]))
  expect(lightness[100] - lightness[0]).toBeGreaterThan(0.7)
})

it('a diverging scale is palest at zero', () => {
  const at = (value: number) => luminance(rgb(colour(value, 'diverging', 2)))
  expect(at(0)).toBeGreaterThan(at(1))
  expect(at(0)).toBeGreaterThan(at(-1))
  expect(at(1)).toBeGreaterThan(at(2))
})

it('numbers can be read on every colour', () => {
  for (const scale of ['weight', 'diverging'] as const) {
    for (let i = -50; i <= 50; i++) {
      const value = scale === 'weight' ? Math.abs(i) / 50 : i / 50
      const ink = inkOn(value, scale) === '#000' ? 0 : 1
      expect(contrast(luminance(rgb(colour(value, scale))), ink)).toBeGreaterThanOrEqual(4.5)
    }
  }
})

it('hidden cells are transparent, values outside the scale keep to its ends', () => {
  const pixels = new Uint8ClampedArray(12)
  paint([0, 9, 0.5], 'weight', 1, new Uint8Array([1, 1, 0]), pixels)
  expect([pixels[3], pixels[7], pixels[11]]).toEqual([255, 255, 0])
  expect(step(9, 'weight', 1)).toBe(255)
  expect(step(-9, 'diverging', 1)).toBe(0)
  expect(step(NaN, 'weight', 1)).toBe(0)
})

it('extentOf looks past signs and infinities', () => {
  expect(extentOf([-3, 2, -Infinity])).toBe(3)
  expect(extentOf([0, 0])).toBe(1)
})
