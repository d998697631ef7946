import { expect, it } from 'vitest'
import { around, cellSize, move } from './grid'

it('arrows move one cell and stop at the edges', () => {
  expect(move({ row: 0, col: 0 }, 'ArrowRight', false, 3, 4)).toEqual({ row: 0, col: 1 })
  expect(move({ row: 0, col: 0 }, 'ArrowUp', false, 3, 4)).toEqual({ row: 0, col: 0 })
  expect(move({ row: 2, col: 3 }, 'ArrowDown', false, 3, 4)).toEqual({ row: 2, col: 3 })
})

it('Home and End go along the row, with Ctrl to the corners, pages by ten', () => {
  expect(move({ row: 1, col: 2 }, 'End', false, 3, 4)).toEqual({ row: 1, col: 3 })
  expect(move({ row: 1, col: 2 }, 'Home', true, 3, 4)).toEqual({ row: 0, col: 0 })
  expect(move({ row: 1, col: 2 }, 'End', true, 3, 4)).toEqual({ row: 2, col: 3 })
  expect(move({ row: 1, col: 2 }, 'PageDown', false, 30, 4)).toEqual({ row: 11, col: 2 })
})

it('other keys are not its own', () => {
  expect(move({ row: 1, col: 2 }, 'a', false, 3, 4)).toBeNull()
})

it('around stays inside', () => {
  expect(around(0, 5)).toEqual([0, 1])
  expect(around(2, 5)).toEqual([1, 2, 3])
  expect(around(0, 1)).toEqual([0])
})

it('cells are whole pixels when large, and always fit', () => {
  expect(cellSize(100, 3, 40)).toBe(33)
  expect(cellSize(1000, 3, 40)).toBe(40)
  expect(cellSize(300, 256, 40) * 256).toBeLessThanOrEqual(300)
})
