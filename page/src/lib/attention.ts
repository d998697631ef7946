// One head, looked at: the masks a reader may lay over it, and whether its numbers add up.
//
// Does not know: the page, the server. A mask is 1 where a query may attend.
import type { HeadTensors } from '../session.svelte'
import { attentionWeights, maxError, scaledScores, type Tensor } from './tensor'
import type { Kind, Token } from './types'

/** What the reader changes in the page only; the model itself is never told. */
export interface HereOnly {
  tau: number
  /** No query sees a later position. Only where queries and keys are the same tokens. */
  causal: boolean
  /** So many keys at the end stand for padding … */
  padding: number
  /** … and are hidden, as padding is. */
  paddingMask: boolean
  hideEnds: boolean
  hidePunctuation: boolean
}

/** As the model does it. */
export function asModel(kind: Kind): HereOnly {
  return {
    tau: 1, causal: kind === 'dec_self', padding: 0, paddingMask: true, hideEnds: false, hidePunctuation: false,
  }
}

/** True when nothing was changed. */
export function isAsModel(kind: Kind, changed: HereOnly): boolean {
  const model = asModel(kind)
  const isPadded = changed.padding > 0 && changed.paddingMask
  return (
    changed.tau === model.tau && changed.causal === model.causal && !isPadded && !changed.hideEnds && !changed.hidePunctuation
  )
}

/** The model's mask `[rows, cols]` with the reader's changes. */
export function maskOf(kind: Kind, modelMask: Uint8Array, keys: Token[], changed: HereOnly): Uint8Array {
  const cols = keys.length
  const rows = modelMask.length / cols
  const hidden = keys.map(
    (key, col) =>
      (changed.paddingMask && col >= cols - changed.padding) ||
      (changed.hideEnds && (key.kind === 'bos' || key.kind === 'eos')) ||
      (changed.hidePunctuation && isPunctuation(key)),
  )
  const mask = new Uint8Array(modelMask.length)
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const at = row * cols + col
      const isLater = kind !== 'cross' && col > row
      // The decoder's own mask is the causal one: the reader's switch stands in its place.
      const allowed = kind === 'dec_self' && isLater ? true : modelMask[at] === 1
      mask[at] = allowed && !hidden[col] && !(changed.causal && isLater) ? 1 : 0
    }
  }
  return mask
}

function isPunctuation(token: Token): boolean {
  return token.kind === 'text' && /^[\p{P}\p{S}]+$/u.test(token.text.trim())
}

export interface Checked {
  /** Largest |softmax(scores) - weights|, with the model's own mask. */
  weights: number
  /** Largest |q·k/(√d_k·τ) - score|. */
  scores: number
}

/** The head's numbers, computed again. */
export function check({ tensors, metadata }: HeadTensors): Checked {
  const { scores, mask, weights, q, k } = tensors
  const [rows, cols] = scores.shape
  const again = attentionWeights(scores.data as Float32Array, rows, cols, { mask: mask.data as Uint8Array })
  const tau = Number(metadata.tau ?? 1) || 1
  return {
    weights: maxError(again, weights.data),
    scores: maxError(scaledScores(q, k, 1 / (Math.sqrt(q.shape[1]) * tau)), scores.data),
  }
}

/** q, k and their products for one cell: three rows of d_k. */
export function products(q: Tensor, k: Tensor, row: number, col: number): Float32Array {
  const size = q.shape[1]
  const out = new Float32Array(3 * size)
  for (let i = 0; i < size; i++) {
    out[i] = q.data[row * size + i]
    out[size + i] = k.data[col * size + i]
    out[2 * size + i] = out[i] * out[size + i]
  }
  return out
}
