// Words out of tokens: how sure the model was of each, and what each looked at.
import type { Step, Token } from './types'

/** The geometric mean of the probabilities of each target word's pieces, 0..1; null for a word without pieces. */
export function wordConfidence(tgt: Token[], steps: Step[], count: number): (number | null)[] {
  const sums = new Array<number>(count).fill(0)
  const pieces = new Array<number>(count).fill(0)
  for (const step of steps) {
    const word = tgt[step.predicts]?.word
    if (word === null || word === undefined || word >= count) continue
    sums[word] += step.logp
    pieces[word] += 1
  }
  return sums.map((sum, word) => (pieces[word] ? Math.exp(sum / pieces[word]) : null))
}

/** The partners of a word on the other side. */
export function partners(pairs: readonly [number, number][], side: 0 | 1, word: number): number[] {
  return pairs.filter((pair) => pair[side] === word).map((pair) => pair[1 - side])
}

/** Which of `words` are not in the longest run of words common with `others`, in order. */
export function newWords(words: string[], others: string[]): boolean[] {
  const lengths = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1))
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      lengths[i][j] = words[i] === others[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1])
    }
  }
  const isNew = new Array<boolean>(words.length).fill(true)
  let [i, j] = [0, 0]
  while (i < words.length && j < others.length) {
    if (words[i] === others[j]) [isNew[i], i, j] = [false, i + 1, j + 1]
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++
    else j++
  }
  return isNew
}
