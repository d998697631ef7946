// What the answers below a trace hold (shapes, steps), and those about code and training. See types.ts for the rest.
import type { ModuleNode } from './types'

/** A token of the vocabulary with how likely it was; logs are natural. */
export interface Candidate {
  id: number
  piece: string
  /** The piece as it reads, with its leading space. */
  text: string
  kind: string
  logit: number
  logp: number
}

export interface StepDetail {
  step: number
  /** The token of `tgt` that this row reads, and the one it predicts. */
  reads: number
  predicts: number
  chosen: { id: number; text: string; logit: number; logp: number; rank: number } | null
  top: Candidate[]
  logsumexp: number
  entropy: number
  /** The probability of all tokens that are not in `top`. */
  rest: number
}

export interface BeamNode {
  n: number
  /** -1: the root, before the first token. */
  parent: number
  token: number
  piece: string
  text: string
  kind: string
  /** Of this token; `total` is the sum from the root, `score` the total after the length penalty. */
  logp: number
  total: number
  score: number
  state: 'live' | 'pruned' | 'finished'
}

export interface CacheSide {
  /** [layers, rows, heads, tokens, columns] */
  keys: number[]
  values: number[]
  bytes: number
}

export interface SearchStep {
  step: number
  nodes: BeamNode[]
  cache: { rows: number; length: number; self: CacheSide; cross: CacheSide } | null
}

export interface Steps {
  k: number
  eos_id: number
  steps: StepDetail[]
  search: SearchStep[]
  chosen_nodes: number[]
  beam: number
  penalty: { kind: string; alpha: number }
}

/** What a decoder layer would have written at each row, were it the last; layer -1 is the embedding. */
export interface LayerReading {
  layer: number
  rows: { row: number; top: Candidate[]; chosen: { id: number; logp: number; rank: number } | null; entropy: number }[]
}

export interface LogitLens {
  approximate: boolean
  layers: LayerReading[]
}

export interface ShapeEntry {
  n: number
  name: string
  stack: 'encoder' | 'decoder' | 'output'
  layer: number | null
  part: string
  title: string
  symbolic: string[]
  shape: number[]
  axes: string[]
  dtype: string
  min: number
  mean: number
  max: number
  sample: number[]
  formula: string
  formula_text: string
  parameters: { name: string; shape: number[] }[]
  num_parameters: number
  component: string
  source: ModuleNode['source']
}

export interface Shapes {
  symbols: Record<string, { size: number; meaning: string }>
  walk: ShapeEntry[]
}

export interface CodePlace {
  name: string
  file: string
  first: number
  last: number
}

export interface Code {
  component: string
  kind: string
  file: string
  first: number
  last: number
  sha256: string
  source: string
  /** The source as Pygments' spans, without a wrapper. */
  html: string
}

export interface TrainingEvent {
  event: string
  step: number
  [figure: string]: number | string | boolean | null | undefined
}

export interface Training {
  running: boolean
  run: string
  next: number
  /** There is more to ask for already. */
  more?: boolean
  events: TrainingEvent[]
}
