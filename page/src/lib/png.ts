// A matrix as a PNG file, with its labels, on white: for slides and papers.
import type { Matrix } from './download'
import { drawMatrix } from './heatmapCanvas'
import { plain } from './label'

const CELL = 32
const FONT = '14px sans-serif'
const RATIO = 2
const MAX_PIXELS = 8192 // what browsers let a canvas be

/** The PNG's bytes. */
export async function pngOf(matrix: Matrix): Promise<Blob> {
  const { rows, cols, title } = matrix
  const canvas = document.createElement('canvas')
  const pen = canvas.getContext('2d')!
  pen.font = FONT
  const widest = (labels: Matrix['rows']) => Math.max(0, ...labels.map((label) => pen.measureText(plain(label)).width))
  const [left, top] = [widest(rows) + 16, widest(cols) + 40]
  const room = MAX_PIXELS / RATIO
  const cell = Math.min(CELL, (room - left) / cols.length, (room - top) / rows.length)
  const [width, height] = [left + cols.length * cell + 12, top + rows.length * cell + 12]
  canvas.width = Math.ceil(width * RATIO)
  canvas.height = Math.ceil(height * RATIO)
  pen.scale(RATIO, RATIO)
  pen.translate(left, top)
  drawMatrix(pen, {
    ...matrix, rows: rows.length, cols: cols.length, cellWidth: cell, cellHeight: cell, hatch: '#888', font: '11px sans-serif',
    format: (value) => (matrix.scale === 'weight' && matrix.extent === 1 && value >= 0.005 ? String(Math.round(value * 100)) : ''),
  })
  pen.fillStyle = '#000'
  pen.font = FONT
  pen.textBaseline = 'middle'
  pen.textAlign = 'left'
  pen.fillText(title, -left + 8, -top + 14)
  const every = Math.ceil(14 / cell)
  cols.forEach((col, c) => {
    if (c % every) return
    pen.save()
    pen.translate((c + 0.5) * cell, -8)
    pen.rotate(-Math.PI / 2)
    pen.fillText(plain(col), 0, 0)
    pen.restore()
  })
  pen.textAlign = 'right'
  rows.forEach((row, r) => {
    if (r % every === 0) pen.fillText(plain(row), -8, (r + 0.5) * cell)
  })
  // Last, and behind: clearing the gaps above would have cut the white away.
  pen.setTransform(1, 0, 0, 1, 0, 0)
  pen.globalCompositeOperation = 'destination-over'
  pen.fillStyle = '#fff'
  pen.fillRect(0, 0, canvas.width, canvas.height)
  return await new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the browser made no PNG'))), 'image/png')
  })
}
