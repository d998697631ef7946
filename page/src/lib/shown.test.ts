import { expect, it } from 'vitest'
import { shownAnswer, type ServiceAnswer } from './shown'

const found: ServiceAnswer['translations'][0] = {
  text: 'ein Mann', score: -0.1, confidence: 0.9, flags: [], source_tokens: ['▁a', '▁man'], tokens: ['▁ein', '▁Mann'],
  words: ['ein', 'Mann'], word_confidence: [0.9, 0.8], source_words: ['a', 'man'], word_alignment: '0-0 1-1',
  alternatives: [{ text: 'ein Herr', score: -0.4 }],
}

it('the service’s answer reads like a trace', () => {
  expect(shownAnswer({ translations: [found] })).toMatchObject({
    pieces: [2, 2], words: [0.9, 0.8], alignment: { words: { source: ['a', 'man'] }, word_pairs: [[0, 0], [1, 1]] },
  })
  expect(shownAnswer({ translations: [found] }).alternatives.map(({ text }) => text)).toEqual(['ein Mann', 'ein Herr'])
})

it('without an alignment there is none to draw', () => {
  const bare = { ...found, word_alignment: null, source_words: null, alternatives: null }
  expect(shownAnswer({ translations: [bare] })).toMatchObject({ alignment: null, alternatives: [{ text: 'ein Mann' }] })
})
