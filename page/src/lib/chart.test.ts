import { describe, expect, it } from 'vitest'
import { decimalsOf, duration, eventsOf, linePath, pointAt, pointsOf, ticks } from './chart'

describe('ticks', () => {
  it('are round and hold the values between them', () => {
    expect(ticks(0, 42)).toEqual([0, 20, 40, 60])
    expect(ticks(1.2, 7.9)).toEqual([0, 2, 4, 6, 8])
    expect(ticks(0, 0.0017)).toHaveLength(5)
  })

  it('may be of one value', () => {
    expect(ticks(3, 3)).toEqual([2, 3, 4])
    expect(ticks(0, 0)).toEqual([0, 1])
  })

  it('have the decimals that tell them apart', () => {
    expect(decimalsOf([0, 20])).toBe(0)
    expect(decimalsOf([0, 0.5])).toBe(1)
    expect(decimalsOf([0, 0.25])).toBe(2)
    expect(decimalsOf([0, 0.0005])).toBe(4)
  })
})

describe('a run’s log', () => {
  const events = [
    { event: 'train', step: 1, loss: 5 }, { event: 'train', step: 2, loss: 4 }, { event: 'validate', step: 2, bleu: 10 },
    { event: 'train', step: 2, loss: 3 }, { event: 'train', step: 3, loss: NaN },
  ]

  it('has each step once, the later line of a resumed run', () => {
    expect(eventsOf(events, 'train').map((event) => event.loss)).toEqual([5, 3, NaN])
  })

  it('gives points of what is a number', () => {
    expect(pointsOf(eventsOf(events, 'train'), 'loss')).toEqual([[1, 5], [2, 3]])
    expect(pointsOf(events, 'bleu')).toEqual([[2, 10]])
  })
})

it('draws a line', () => expect(linePath([[0, 1], [2, 3]], (x) => x * 10, (y) => 10 - y)).toBe('M0 9L20 7'))

it('reads the last point at or before a step', () => {
  expect(pointAt([[1, 10], [5, 50]], 4)).toEqual([1, 10])
  expect(pointAt([[1, 10], [5, 50]], 0)).toEqual([1, 10])
  expect(pointAt([], 3)).toBeNull()
})

it('tells a time', () => expect(duration(3725.4)).toEqual({ hours: 1, minutes: 2, seconds: 5 }))
