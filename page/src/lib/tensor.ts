// Tensors: the safetensors format, and the arithmetic of one attention head.
//
// In: bytes from the server, row-major arrays. Out: arrays and numbers.
// Does not know: the page, the server, tokens, colours.
// Axes: rows are queries, cols are keys. A mask is 1 where a query may attend.

export type Data = Float32Array | Int32Array | Uint8Array

export interface Tensor {
  shape: number[]
  data: Data
}

export type Tensors = Record<string, Tensor>

interface HeaderEntry {
  dtype: string
  shape: number[]
  data_offsets: [number, number]
}

const MAX_HEADER = 100_000_000

interface Header {
  metadata: Record<string, string>
  entries: Record<string, HeaderEntry>
}

function readHeader(buffer: ArrayBuffer): Header & { length: number } {
  if (buffer.byteLength < 8) throw new Error(`safetensors: ${buffer.byteLength} bytes are too few for a header`)
  const length = Number(new DataView(buffer).getBigUint64(0, true))
  if (length > MAX_HEADER || 8 + length > buffer.byteLength) {
    throw new Error(`safetensors: the header claims ${length} bytes of ${buffer.byteLength}`)
  }
  const text = new TextDecoder().decode(new Uint8Array(buffer, 8, length))
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(text) as Record<string, never>
  return { metadata, entries, length }
}

/** What a safetensors file says about itself. */
export function readMetadata(buffer: ArrayBuffer): Record<string, string> {
  return readHeader(buffer).metadata
}

/** The tensors of a safetensors file; throws an Error that says what is wrong with the bytes. */
export function readSafetensors(buffer: ArrayBuffer): Tensors {
  const { entries, length } = readHeader(buffer)
  const tensors: Tensors = {}
  for (const [name, entry] of Object.entries(entries)) {
    const [start, end] = entry.data_offsets
    // A copy, because a view must start at a multiple of its item size and the header promises none.
    const bytes = buffer.slice(8 + length + start, 8 + length + end)
    const data = view(entry.dtype, bytes, name)
    const count = entry.shape.reduce((product, size) => product * size, 1)
    if (data.length !== count) {
      throw new Error(`safetensors: ${name} has ${data.length} values for the shape [${entry.shape}]`)
    }
    tensors[name] = { shape: entry.shape, data }
  }
  return tensors
}

function view(dtype: string, bytes: ArrayBuffer, name: string): Data {
  if (dtype === 'F32') return new Float32Array(bytes)
  if (dtype === 'I32') return new Int32Array(bytes)
  if (dtype === 'U8') return new Uint8Array(bytes)
  throw new Error(`safetensors: ${name} is ${dtype}; this page reads F32, I32 and U8`)
}

/** The bytes of a safetensors file with these tensors. */
export function writeSafetensors(tensors: Tensors, metadata?: Record<string, string>): Uint8Array<ArrayBuffer> {
  const header: Record<string, HeaderEntry | Record<string, string>> = metadata ? { __metadata__: metadata } : {}
  let offset = 0
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    const dtype = data instanceof Float32Array ? 'F32' : data instanceof Int32Array ? 'I32' : 'U8'
    header[name] = { dtype, shape, data_offsets: [offset, offset + data.byteLength] }
    offset += data.byteLength
  }
  let text = JSON.stringify(header)
  const length = new TextEncoder().encode(text).length
  text += ' '.repeat((8 - (length % 8)) % 8) // the format asks for data that starts at a multiple of 8
  const head = new TextEncoder().encode(text)
  const out = new Uint8Array(8 + head.length + offset)
  new DataView(out.buffer).setBigUint64(0, BigInt(head.length), true)
  out.set(head, 8)
  let at = 8 + head.length
  for (const { data } of Object.values(tensors)) {
    out.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at)
    at += data.byteLength
  }
  return out
}

/**
 * softmax(scores / tau) over the visible cells of each row; hidden cells get exactly 0, and a row
 * with nothing to see gets zeros. Written into `out` when given.
 */
export function attentionWeights(
  scores: Float32Array,
  rows: number,
  cols: number,
  { tau = 1, mask = null, out = new Float32Array(rows * cols) }:
    { tau?: number; mask?: Uint8Array | null; out?: Float32Array } = {},
): Float32Array {
  for (let row = 0; row < rows; row++) {
    const start = row * cols
    let max = -Infinity
    for (let at = start; at < start + cols; at++) {
      if ((!mask || mask[at]) && scores[at] > max) max = scores[at]
    }
    let total = 0
    for (let at = start; at < start + cols; at++) {
      const weight = mask && !mask[at] ? 0 : Math.exp((scores[at] - max) / tau)
      out[at] = weight
      total += weight
    }
    if (total > 0) for (let at = start; at < start + cols; at++) out[at] /= total
  }
  return out
}

/** q · kᵀ / √d_k, `[rows, cols]`, from q `[rows, d_k]` and k `[cols, d_k]`. */
export function scaledScores(q: Tensor, k: Tensor, scale = 1 / Math.sqrt(q.shape[1])): Float32Array {
  const [rows, size] = q.shape
  const cols = k.shape[0]
  const out = new Float32Array(rows * cols)
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      let sum = 0
      for (let i = 0; i < size; i++) sum += q.data[row * size + i] * k.data[col * size + i]
      out[row * cols + col] = sum * scale
    }
  }
  return out
}

/** weights `[rows, cols]` times v `[cols, d_v]`: what the head hands on. */
export function weightedSum(weights: Float32Array, v: Tensor): Tensor {
  const [cols, size] = v.shape
  const rows = weights.length / cols
  const data = new Float32Array(rows * size)
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const weight = weights[row * cols + col]
      if (weight === 0) continue
      for (let i = 0; i < size; i++) data[row * size + i] += weight * v.data[col * size + i]
    }
  }
  return { shape: [rows, size], data }
}

/** The largest |a - b|. */
export function maxError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) throw new Error(`maxError: ${a.length} values against ${b.length}`)
  let error = 0
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i] - b[i])
    if (!(difference <= error)) error = difference // NaN must come out, not pass
  }
  return error
}

/** The largest value of each of at most `size` × `size` blocks. */
export function maxPool(
  values: ArrayLike<number>, rows: number, cols: number, size: number,
): { rows: number; cols: number; values: Float32Array } {
  const outRows = Math.min(rows, size)
  const outCols = Math.min(cols, size)
  const out = new Float32Array(outRows * outCols).fill(-Infinity)
  for (let row = 0; row < rows; row++) {
    const outRow = Math.floor((row * outRows) / rows)
    for (let col = 0; col < cols; col++) {
      const at = outRow * outCols + Math.floor((col * outCols) / cols)
      out[at] = Math.max(out[at], values[row * cols + col])
    }
  }
  return { rows: outRows, cols: outCols, values: out }
}

/** -Σ p·ln p, in nats. */
export function entropy(probabilities: ArrayLike<number>): number {
  let sum = 0
  for (let i = 0; i < probabilities.length; i++) {
    const p = probabilities[i]
    if (p > 0) sum -= p * Math.log(p)
  }
  return sum
}

/** Row `row` of a matrix, as a view. */
export function rowOf<T extends Data>(values: T, row: number, cols: number): T {
  return values.subarray(row * cols, (row + 1) * cols) as T
}

/** The `count` largest, as indices, largest first. */
export function largest(values: ArrayLike<number>, count: number): number[] {
  return Array.from({ length: values.length }, (_, i) => i)
    .sort((a, b) => values[b] - values[a] || a - b)
    .slice(0, count)
}
