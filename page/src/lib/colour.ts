// Colour scales as tables: 256 steps, each four bytes (red, green, blue, alpha), for canvas and SVG.
//
// cividis for weights: made to look the same with colour-vision deficiency, and its lightness only rises.
// Purple to orange for scores and differences, with nothing to see at zero.
import { interpolateCividis, interpolatePuOr } from 'd3-scale-chromatic'

export type Scale = 'weight' | 'diverging'

const STEPS = 256

function table(interpolate: (t: number) => string): Uint8ClampedArray {
  const out = new Uint8ClampedArray(STEPS * 4)
  for (let i = 0; i < STEPS; i++) {
    const [red, green, blue] = interpolate(i / (STEPS - 1)).match(/\d+/g)!.map(Number)
    out.set([red, green, blue, 255], i * 4)
  }
  return out
}

const tables: Record<Scale, Uint8ClampedArray> = {
  weight: table(interpolateCividis),
  diverging: table((t) => interpolatePuOr(1 - t)),
}

/** The place of a value in the table: weights lie in 0..1, diverging values in -extent..extent. */
export function step(value: number, scale: Scale, extent: number): number {
  const t = scale === 'weight' ? value / extent : 0.5 + value / (2 * extent)
  return Number.isFinite(t) ? Math.max(0, Math.min(STEPS - 1, Math.round(t * (STEPS - 1)))) : 0
}

/** A map's pixels, one a cell; hidden cells stay transparent. */
export function paint(
  values: ArrayLike<number>, scale: Scale, extent: number, mask: Uint8Array | null, pixels: Uint8ClampedArray,
): void {
  const colours = new Uint32Array(tables[scale].buffer)
  const out = new Uint32Array(pixels.buffer)
  for (let i = 0; i < values.length; i++) {
    out[i] = mask && !mask[i] ? 0 : colours[step(values[i], scale, extent)]
  }
}

/** The CSS colour of a value. */
export function colour(value: number, scale: Scale, extent = 1): string {
  const at = step(value, scale, extent) * 4
  const t = tables[scale]
  return `rgb(${t[at]} ${t[at + 1]} ${t[at + 2]})`
}

/** Black or white, whichever is easier to read on the colour of a value (WCAG contrast). */
export function inkOn(value: number, scale: Scale, extent = 1): string {
  const at = step(value, scale, extent) * 4
  const lightness = luminance(tables[scale].subarray(at, at + 3))
  return (lightness + 0.05) ** 2 > 1.05 * 0.05 ? '#000' : '#fff'
}

/** WCAG relative luminance, 0 to 1, of red, green and blue in 0..255. */
export function luminance(rgb: ArrayLike<number>): number {
  const [r, g, b] = Array.from(rgb, (c) => {
    const s = c / 255
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

/** max |value|, for a diverging scale; 1 when all are zero. */
export function extentOf(values: ArrayLike<number>): number {
  let extent = 0
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i])
    if (size > extent && size < Infinity) extent = size
  }
  return extent || 1
}
