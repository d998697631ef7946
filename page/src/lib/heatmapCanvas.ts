// Drawing a matrix on a canvas: one pixel a cell, enlarged; hidden cells hatched; numbers where they fit.
//
// Does not know: labels, pointers, keys.
import { inkOn, paint, type Scale } from './colour'

export interface Drawing {
  values: ArrayLike<number>
  rows: number
  cols: number
  mask: Uint8Array | null
  scale: Scale
  extent: number
  cellWidth: number
  cellHeight: number
  /** Of the hatching, as CSS. */
  hatch: string
  font: string
  /** A cell's number; '' for none. */
  format: (value: number) => string
}

const GAP_FROM = 9 // cells of this many pixels stand apart by a hairline
const NUMBERS_FROM = { width: 27, height: 18 }

/** Draw into a context whose units are CSS pixels. */
export function drawMatrix(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { rows, cols, cellWidth, cellHeight } = drawing
  context.clearRect(0, 0, cols * cellWidth, rows * cellHeight)
  context.imageSmoothingEnabled = false
  context.drawImage(pixelsOf(drawing), 0, 0, cols * cellWidth, rows * cellHeight)
  if (drawing.mask) hatchHidden(context, drawing, drawing.mask)
  if (Math.min(cellWidth, cellHeight) >= GAP_FROM) cutGaps(context, drawing)
  if (cellWidth >= NUMBERS_FROM.width && cellHeight >= NUMBERS_FROM.height) writeNumbers(context, drawing)
}

let scratch: HTMLCanvasElement | undefined

function pixelsOf({ values, rows, cols, mask, scale, extent }: Drawing): HTMLCanvasElement {
  scratch ??= document.createElement('canvas')
  if (scratch.width !== cols || scratch.height !== rows) {
    scratch.width = cols
    scratch.height = rows
  }
  const context = scratch.getContext('2d')!
  const image = context.createImageData(cols, rows)
  paint(values, scale, extent, mask, image.data)
  context.putImageData(image, 0, 0)
  return scratch
}

function hatchHidden(context: CanvasRenderingContext2D, drawing: Drawing, mask: Uint8Array): void {
  const { rows, cols, cellWidth, cellHeight } = drawing
  context.fillStyle = hatching(context, drawing.hatch)
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const first = col
      while (col < cols && !mask[row * cols + col]) col++
      if (col > first) {
        context.fillRect(first * cellWidth, row * cellHeight, (col - first) * cellWidth, cellHeight)
      }
    }
  }
}

function hatching(context: CanvasRenderingContext2D, colour: string): CanvasPattern {
  const size = 6
  const tile = document.createElement('canvas')
  tile.width = tile.height = size
  const pen = tile.getContext('2d')!
  pen.strokeStyle = colour
  pen.lineWidth = 1
  pen.beginPath()
  for (const at of [-size, 0, size]) {
    pen.moveTo(at - 1, size + 1)
    pen.lineTo(at + size + 1, -1)
  }
  pen.stroke()
  return context.createPattern(tile, 'repeat')!
}

function cutGaps(context: CanvasRenderingContext2D, { rows, cols, cellWidth, cellHeight }: Drawing): void {
  for (let col = 1; col < cols; col++) context.clearRect(col * cellWidth - 1, 0, 1, rows * cellHeight)
  for (let row = 1; row < rows; row++) context.clearRect(0, row * cellHeight - 1, cols * cellWidth, 1)
}

function writeNumbers(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { values, rows, cols, mask, scale, extent, cellWidth, cellHeight } = drawing
  context.font = drawing.font
  context.textAlign = 'center'
  context.textBaseline = 'middle'
  for (let at = 0; at < rows * cols; at++) {
    if (mask && !mask[at]) continue
    const text = drawing.format(values[at])
    if (!text) continue
    context.fillStyle = inkOn(values[at], scale, extent)
    const x = ((at % cols) + 0.5) * cellWidth
    context.fillText(text, x, (Math.floor(at / cols) + 0.5) * cellHeight, cellWidth - 3)
  }
}
