// Moving through a grid of cells by key, as a screen reader's user expects (WAI-ARIA grid pattern).

export interface Cell {
  row: number
  col: number
}

const PAGE = 10

/** The cell a key leads to, or null when the key moves nothing. */
export function move(cell: Cell, key: string, ctrl: boolean, rows: number, cols: number): Cell | null {
  const { row, col } = cell
  const steps: Record<string, [number, number]> = {
    ArrowUp: [row - 1, col],
    ArrowDown: [row + 1, col],
    ArrowLeft: [row, col - 1],
    ArrowRight: [row, col + 1],
    PageUp: [row - PAGE, col],
    PageDown: [row + PAGE, col],
    Home: [ctrl ? 0 : row, 0],
    End: [ctrl ? rows - 1 : row, cols - 1],
  }
  const to = steps[key]
  return to ? { row: within(to[0], rows), col: within(to[1], cols) } : null
}

function within(value: number, count: number): number {
  return Math.max(0, Math.min(count - 1, value))
}

/** The indices next to `at`, itself included, within `count`. */
export function around(at: number, count: number, reach = 1): number[] {
  const first = Math.max(0, at - reach)
  const last = Math.min(count - 1, at + reach)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i)
}

/** Cells of equal size that fit `width`: whole pixels while they are large enough to see the difference. */
export function cellSize(width: number, cols: number, max: number): number {
  const size = Math.min(max, width / Math.max(1, cols))
  return size >= 4 ? Math.floor(size) : size
}
