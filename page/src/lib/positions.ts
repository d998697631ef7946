// A model's positions: which columns turn together, by what angle, and whether a shift is a rotation.
//
// Axes: table `[length, width]`; a pair is one sine and one cosine column of the same frequency.

export interface PositionTable {
  kind: 'sinusoidal' | 'learned' | 'rotary'
  variant: string
  /** `[length, width]`, row-major. */
  table: Float32Array
  length: number
  width: number
  base: number
}

/** The columns (sine, cosine) of pair i. */
export function pairColumns(variant: string, width: number, pair: number): [number, number] {
  const half = Math.floor(width / 2)
  return variant === 'interleaved' ? [2 * pair, 2 * pair + 1] : [pair, half + pair]
}

/** Which pair a column belongs to. */
export function pairOf(variant: string, width: number, column: number): number {
  const half = Math.floor(width / 2)
  return variant === 'interleaved' ? Math.floor(column / 2) : column % half
}

export interface Rotation {
  /** What a shift by one position turns, in radians; found in the table itself, not in a formula. */
  angle: number
  /** Largest |rotated - table| over all positions, for the asked shift. */
  error: number
}

/**
 * The rotation that takes (sine, cosine) at each position to that `shift` further, as the table has it.
 * Its angle is read from the first position's step to the second.
 */
export function rotation({ table, length, width }: PositionTable, [sine, cosine]: [number, number], shift: number): Rotation {
  const at = (position: number) => [table[position * width + sine], table[position * width + cosine]]
  const [s0, c0] = at(0)
  const [s1, c1] = at(1)
  const angle = Math.atan2(s1 * c0 - c1 * s0, c1 * c0 + s1 * s0)
  const [sin, cos] = [Math.sin(angle * shift), Math.cos(angle * shift)]
  let error = 0
  for (let position = 0; position + shift < length; position++) {
    const [s, c] = at(position)
    const [toS, toC] = at(position + shift)
    error = Math.max(error, Math.abs(s * cos + c * sin - toS), Math.abs(c * cos - s * sin - toC))
  }
  return { angle, error }
}

/** Cosine of the angle between the rows of each two positions, `[length, length]`. */
export function similarity({ table, length, width }: PositionTable): Float32Array {
  const sizes = Array.from({ length }, (_, row) => {
    let sum = 0
    for (let i = 0; i < width; i++) sum += table[row * width + i] ** 2
    return Math.sqrt(sum) || 1
  })
  const out = new Float32Array(length * length)
  for (let a = 0; a < length; a++) {
    for (let b = a; b < length; b++) {
      let dot = 0
      for (let i = 0; i < width; i++) dot += table[a * width + i] * table[b * width + i]
      out[a * length + b] = out[b * length + a] = dot / (sizes[a] * sizes[b])
    }
  }
  return out
}
