import { expect, it } from 'vitest'
import { formatHash, parseHash, wholeNumber } from './state'

const views = ['translate', 'attention']

it('a place survives its address', () => {
  const place = { view: 'attention', params: { layer: '2', text: '我爱你 & you?' } }
  expect(parseHash(formatHash(place), views)).toEqual(place)
})

it('a foreign address is the first view', () => {
  expect(parseHash('', views).view).toBe('translate')
  expect(parseHash('#/nowhere?x=1', views)).toEqual({ view: 'translate', params: { x: '1' } })
})

it('equal places have equal addresses', () => {
  expect(formatHash({ view: 'attention', params: { b: '1', a: '2', c: '' } })).toBe('#/attention?a=2&b=1')
})

it('numbers from an address stay in range', () => {
  expect(wholeNumber('7', 0, 3)).toBe(3)
  expect(wholeNumber('-1', 0, 3)).toBe(0)
  expect(wholeNumber('x', 2, 3)).toBe(2)
  expect(wholeNumber(undefined, 5, 3)).toBe(3)
  expect(wholeNumber('', 1, 3)).toBe(1)
})
