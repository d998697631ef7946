// What the server's answers hold, as far as the page reads them. Logs are natural; indices start at 0.

export type Kind = 'enc_self' | 'dec_self' | 'cross'
export const kinds: readonly Kind[] = ['enc_self', 'dec_self', 'cross']

export interface Token {
  i: number
  id: number
  piece: string
  /** The piece as it reads, with its leading space. */
  text: string
  kind: 'text' | 'byte' | 'bos' | 'eos' | 'unk' | 'pad'
  span: [number, number] | null
  word: number | null
  bytes: { first: number; count: number; part: number; whole: boolean } | null
}

export interface ModuleNode {
  name: string
  class: string
  component: string
  formula: string | null
  num_parameters: number
  parameters: { name: string; shape: number[]; tied_to: string | null }[]
  source: { file: string; first: number; last: number } | null
  children: ModuleNode[]
}

export interface ModelConfig {
  d_model: number
  num_heads: number
  d_k: number
  d_v: number
  d_ff: number
  num_encoder_layers: number
  num_decoder_layers: number
  norm: string
  activation: string
  position: string
  source_vocab_size: number
  target_vocab_size: number
  [field: string]: unknown
}

export interface SearchSettings {
  mode: 'beam' | 'greedy' | 'sample'
  beam: number
  length_penalty: number
  n_best: number
  temperature: number
  top_k: number
  seed: number
  [field: string]: unknown
}

export interface Model {
  name: string
  /** False for a model that was made for want of a trained one; null where nobody could look. */
  trained: boolean | null
  note: string | null
  /** All that this server has. */
  models: string[]
  available: boolean
  languages: { source: string | null; target: string | null }
  config: ModelConfig | null
  num_parameters: number | null
  heads: Record<Kind, { layers: number; heads: number }> | null
  search: SearchSettings | null
  limits: Record<string, number>
  alignment: { heads: [number, number][]; agreement: number | null; sentences: number; note: string } | null
  modules: ModuleNode | null
  formulas: Record<string, { text: string; mathml: string }> | null
}

export interface Hypothesis {
  rank: number
  text: string
  score: number
  log_prob: number
  finished: boolean
  ids: number[]
  pieces: string[]
}

export interface Step {
  step: number
  reads: number
  predicts: number
  id: number
  text: string
  logp: number
  probability: number
  entropy: number
  rank: number
}

export interface Alignment {
  pairs: [number, number][]
  word_pairs: [number, number][]
  pharaoh: string
  words: { source: string[]; target: string[] }
  heads: [number, number][]
  agreement: number | null
  note: string
}

export interface Difference {
  same: boolean
  text_before: string
  text_after: string
  score_before: number
  score_after: number
  first_difference: number | null
  parent_log_prob: number
  log_prob_now: number
  tokens: { i: number; id: number; text: string; logp_before: number; logp_now: number }[]
}

export interface Trace {
  id: string
  parent: string | null
  model: string
  trained: boolean
  text: string
  translation: string
  score: number
  confidence: number
  finished: boolean
  src: Token[]
  tgt: Token[]
  rows: { encoder: number; decoder: number }
  hypotheses: Hypothesis[]
  decode: Record<string, unknown>
  steps: Step[]
  alignment: Alignment | null
  flags: string[]
  interventions: {
    ablate: { kind: Kind; layer: number; head: number }[]
    tau: { kind: Kind; layer: number | null; tau: number }[]
    mask: Record<string, unknown>[]
  }
  force: number[]
  difference: Difference | null
  timing: Record<string, number>
  limits_applied: string[]
  links: Record<string, string>
}

/** The tokens that index a map's rows and columns: rows are queries, columns keys. */
export function sides(trace: Trace, kind: Kind): { queries: Token[]; keys: Token[] } {
  const source = trace.src.slice(0, trace.rows.encoder)
  const target = trace.tgt.slice(0, trace.rows.decoder)
  return {
    queries: kind === 'enc_self' ? source : target,
    keys: kind === 'dec_self' ? target : source,
  }
}
