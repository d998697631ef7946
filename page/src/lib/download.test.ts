import { expect, it } from 'vitest'
import { csvOf, fileName, svgOf, type Matrix } from './download'
import { textLabel } from './label'

const matrix: Matrix = {
  title: 'a < b', rows: ['x', '=1+1'].map(textLabel), cols: ['"k"', '</s>'].map(textLabel),
  values: new Float32Array([0.5, 0.5, 1, 0]), mask: new Uint8Array([1, 1, 1, 0]), scale: 'weight', extent: 1,
}

it('CSV has a line a cell, quotes what needs it, and runs no formula', () => {
  const lines = csvOf(matrix).trimEnd().split('\r\n')
  expect(lines).toHaveLength(5)
  expect(lines[1]).toBe('0,0,x,"""k""",0.5,1')
  expect(lines[4]).toBe("1,1,'=1+1,</s>,0,0")
})

it('SVG names itself and keeps labels from being read as tags', () => {
  const svg = svgOf(matrix)
  expect(svg).toContain('<title>a &#60; b</title>')
  expect(svg).not.toContain('</s>')
  expect(svg.match(/<rect /g)).toHaveLength(5)
})

it('file names hold letters of any script and nothing a file system refuses', () => {
  expect(fileName('cross: layer 1/2 “猫”', 'csv')).toBe('cross-layer-1-2-猫.csv')
  expect(fileName('a window .', 'html')).toBe('a-window.html')
  expect(fileName('///', 'png')).toBe('transduce.png')
})
