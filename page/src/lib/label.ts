// A token as a person reads it: no `▁`, no `<0xE7>`, no �.
import type { Token } from './types'

export interface Label {
  /** What is shown, without the leading space. */
  text: string
  /** The piece begins a word: shown as a faint ␣. */
  space: boolean
  /** How many byte pieces spell this character together; 0 for other pieces. */
  bytes: number
  /** `<s>` and its like, which are no text. */
  special: boolean
  lang?: string
  /** What the row predicts, when it reads one token to predict the next. */
  then?: string
}

/** The label of a token. */
export function labelOf(token: Token, lang?: string | null): Label {
  const special = token.kind !== 'text' && token.kind !== 'byte'
  const space = token.kind === 'text' && /^\s/.test(token.text)
  const text = readable(token.text).replace(/^\s/, '')
  return {
    text: text === '' ? (space ? '' : '∅') : text.replace(/\s/g, '␣'),
    space,
    bytes: token.bytes?.count ?? 0,
    special,
    lang: special ? undefined : (lang ?? undefined),
  }
}

/** A label in one string, for a screen reader, a file, a sentence. */
export function plain(label: Label): string {
  return label.text || '␣'
}

/** Text without the replacement character: bytes that spell nothing show as an empty box. */
export function readable(text: string): string {
  return text.replaceAll('\ufffd', '▯')
}

/** A plain label for something that is no token: a position, a dimension, a head. */
export function textLabel(text: string | number): Label {
  return { text: String(text), space: false, bytes: 0, special: true }
}

/** Scripts written without turning when lines run down: their labels stand upright over columns. */
export function isUpright(text: string): boolean {
  return /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{P}]+$/u.test(text) &&
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u.test(text)
}

/** A language whose text runs from right to left. */
export function direction(lang: string | null | undefined): 'rtl' | 'ltr' {
  return /^(ar|arc|dv|fa|ha-arab|he|iw|ku-arab|ps|sd|ug|ur|yi)\b/i.test(lang ?? '') ? 'rtl' : 'ltr'
}
