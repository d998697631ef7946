// A translation as the page shows it, whether the model can be looked into or not.
import type { Alignment, Hypothesis, Trace } from './types'
import { wordConfidence } from './words'

/** What `POST /api/v1/translate` answers, as far as the page reads it. */
export interface ServiceAnswer {
  translations: {
    text: string
    score: number
    confidence: number
    flags: string[]
    source_tokens: string[]
    tokens: string[]
    words: string[]
    word_confidence: number[]
    source_words?: string[] | null
    word_alignment?: string | null
    alternatives?: { text: string; score: number }[] | null
  }[]
}

export interface Shown {
  text: string
  confidence: number
  flags: string[]
  /** Pieces read and written. */
  pieces: [number, number]
  milliseconds: number | null
  alignment: Pick<Alignment, 'words' | 'word_pairs'> | null
  /** A word's probability, or null; one a target word of the alignment. */
  words: (number | null)[]
  alternatives: Pick<Hypothesis, 'text' | 'score'>[]
}

/** Of a trace. */
export function shownTrace(trace: Trace): Shown {
  return {
    text: trace.translation,
    confidence: trace.confidence,
    flags: trace.flags,
    pieces: [trace.rows.encoder, trace.rows.decoder],
    milliseconds: trace.timing.total_ms ?? null,
    alignment: trace.alignment,
    words: wordConfidence(trace.tgt, trace.steps, trace.alignment?.words.target.length ?? 0),
    alternatives: trace.hypotheses,
  }
}

/** Of the service's answer to one text. */
export function shownAnswer(answer: ServiceAnswer): Shown {
  const found = answer.translations[0]
  const pairs = found.word_alignment ? found.word_alignment.split(' ').map(pairOf) : null
  return {
    text: found.text,
    confidence: found.confidence,
    flags: found.flags,
    pieces: [found.source_tokens.length, found.tokens.length],
    milliseconds: null,
    alignment: pairs && found.source_words
      ? { words: { source: found.source_words, target: found.words }, word_pairs: pairs }
      : null,
    words: found.word_confidence,
    alternatives: [{ text: found.text, score: found.score }, ...(found.alternatives ?? [])],
  }
}

function pairOf(text: string): [number, number] {
  const [source, target] = text.split('-').map(Number)
  return [source, target]
}
