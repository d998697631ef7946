// Files for the reader: a name and bytes into the browser's downloads; a matrix as CSV and SVG.
//
// Does not know: views, the server.
import { colour, inkOn, type Scale } from './colour'
import { plain, type Label } from './label'

/** Hand a file to the reader. */
export function save(name: string, content: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

/** A name that every file system takes. */
export function fileName(name: string, extension: string): string {
  const safe = name.replace(/[^\p{L}\p{N}.-]+/gu, '-').replace(/^[-.]+|[-.]+$/g, '')
  return `${safe.slice(0, 80).replace(/[-.]+$/, '') || 'transduce'}.${extension}`
}

export interface Matrix {
  title: string
  rows: Label[]
  cols: Label[]
  values: ArrayLike<number>
  mask: Uint8Array | null
  scale: Scale
  extent: number
}

/** One line a cell: row, column, their labels, the value; hidden cells say so. */
export function csvOf({ rows, cols, values, mask }: Matrix): string {
  const lines = ['row,column,query,key,value,visible']
  rows.forEach((row, r) =>
    cols.forEach((col, c) => {
      const at = r * cols.length + c
      const visible = !mask || mask[at] ? 1 : 0
      lines.push(`${r},${c},${quoted(plain(row))},${quoted(plain(col))},${values[at]},${visible}`)
    }),
  )
  return lines.join('\r\n') + '\r\n'
}

function quoted(text: string): string {
  // A spreadsheet runs what begins like a formula; a quote before it keeps it text.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const CELL = 22

/** The matrix as an SVG drawing, with its title and labels. */
export function svgOf({ title, rows, cols, values, mask, scale, extent }: Matrix): string {
  const left = 16 + 9 * Math.max(1, ...rows.map((row) => plain(row).length))
  const top = 16 + 9 * Math.max(1, ...cols.map((col) => plain(col).length))
  const width = left + CELL * cols.length + 8
  const height = top + CELL * rows.length + 8
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="sans-serif" font-size="13">`,
    `<title>${escaped(title)}</title><rect width="${width}" height="${height}" fill="#fff"/>`,
  ]
  cols.forEach((col, c) => {
    const [x, y] = [left + CELL * (c + 0.5) + 4, top - 6]
    parts.push(`<text transform="translate(${x} ${y}) rotate(-90)">${escaped(plain(col))}</text>`)
  })
  rows.forEach((row, r) => {
    const y = top + CELL * r
    parts.push(`<text x="${left - 6}" y="${y + CELL * 0.7}" text-anchor="end">${escaped(plain(row))}</text>`)
    cols.forEach((_, c) => {
      const at = r * cols.length + c
      const x = left + CELL * c
      const hidden = mask && !mask[at]
      const fill = hidden ? 'none' : colour(values[at], scale, extent)
      const line = hidden ? `<path d="M${x} ${y + CELL}l${CELL} -${CELL}" stroke="#aaa"/>` : ''
      parts.push(`<rect x="${x}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}"/>${line}`)
      if (!hidden && scale === 'weight' && extent === 1 && values[at] >= 0.005) {
        const ink = inkOn(values[at], scale, extent)
        parts.push(`<text x="${x + CELL / 2}" y="${y + CELL * 0.66}" text-anchor="middle" font-size="9" fill="${ink}">${Math.round(values[at] * 100)}</text>`)
      }
    })
  })
  return parts.join('\n') + '\n</svg>\n'
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
