import { expect, it } from 'vitest'
import { direction, isUpright, labelOf, plain, readable } from './label'
import type { Token } from './types'

const token = (fields: Partial<Token>): Token => ({
  i: 0, id: 5, piece: '▁cat', text: ' cat', kind: 'text', span: [0, 3], word: 0, bytes: null, ...fields,
})

it('a word’s first piece shows its space apart', () => {
  expect(labelOf(token({}), 'en')).toMatchObject({ text: 'cat', space: true, lang: 'en', special: false })
  expect(labelOf(token({ text: 's' }))).toMatchObject({ text: 's', space: false })
})

it('a space alone is still something to see', () => {
  expect(plain(labelOf(token({ text: ' ' })))).toBe('␣')
  expect(plain(labelOf(token({ text: '' })))).toBe('∅')
})

it('a byte piece is its character, and says of how many it is made', () => {
  const bytes = { first: 4, count: 3, part: 1, whole: true }
  expect(labelOf(token({ kind: 'byte', text: '爿', bytes }))).toMatchObject({ text: '爿', bytes: 3 })
})

it('an end symbol is in no language', () => {
  expect(labelOf(token({ kind: 'eos', text: '</s>' }), 'zh')).toMatchObject({ special: true, lang: undefined })
})

it('Han stands upright, Latin does not', () => {
  expect([isUpright('猫'), isUpright('cat'), isUpright('。'), isUpright('一a')]).toEqual([true, false, false, false])
})

it('Arabic runs from the right', () => {
  expect([direction('ar'), direction('arz'), direction('en'), direction(null)]).toEqual(['rtl', 'ltr', 'ltr', 'ltr'])
})

it('bytes that spell nothing are an empty box', () => {
  expect(readable('a\ufffdb')).toBe('a▯b')
  expect(labelOf(token({ text: ' \ufffd' })).text).toBe('▯')
})
