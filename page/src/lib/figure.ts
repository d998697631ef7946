// The paper's Figure 1 for any configuration: where each box, line and frame stands. Lengths are pixels.
//
// In: the model's config, a width, the boxes' labels. Out: boxes to draw and to choose, from bottom to top as data flows.
// Does not know: languages, colours, the page.
import type { ModelConfig } from './types'

export type Stack = 'encoder' | 'decoder' | 'output'
export type BoxKind = 'embedding' | 'position' | 'attention' | 'add_norm' | 'norm' | 'feed_forward' | 'output'

export interface Box {
  /** `encoder.self_attention`, `decoder.norm`, `output`, …: see `moduleName`. */
  id: string
  kind: BoxKind
  stack: Stack
  x: number
  y: number
  width: number
  height: number
  lines: string[]
  /** Drawn as the sum and the wave beside the line, not as a box. */
  isWave?: boolean
}

export interface Figure {
  width: number
  height: number
  boxes: Box[]
  /** Where data flows; the last point has the arrow's head. */
  arrows: string[]
  /** Around a sub-layer. */
  residuals: string[]
  /** Sums that are no box of their own (pre-norm). */
  sums: { x: number; y: number }[]
  frames: { x: number; y: number; width: number; height: number; layers: number; stack: Stack; labelX: number }[]
  /** Which matrices are one. */
  ties: string[]
  texts: { x: number; y: number; id: string }[]
}

export type Label = (id: string, kind: BoxKind) => string

const LINE = 15
const PAD = 8
const GAP = 20
const EDGE = 16 // beside a frame: the ties
const MIDDLE = 34 // between the stacks: keys and values cross here
const ROOM = 13 // between a frame and its boxes: the residual runs here
const MAX_BOX = 190

/** Words in lines no longer than a width, by how wide letters are on average; Han characters break anywhere. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  const words = text.match(/[\u2e80-\uffff]|[^\s\u2e80-\uffff]+\s*|\s+/g) ?? []
  // A word that is too long by itself breaks after its hyphens.
  const pieces = words.flatMap((word) => (widthOf(word.trimEnd()) > width ? (word.match(/[^-]+-?\s*/g) ?? [word]) : [word]))
  for (const piece of pieces) {
    if (line && widthOf((line + piece).trimEnd()) > width) {
      lines.push(line.trim())
      line = ''
    }
    line += piece
  }
  return [...lines, line.trim()].filter(Boolean)
}

function widthOf(text: string): number {
  return [...text].reduce((sum, letter) => sum + (/[\u2e80-\uffff]/.test(letter) ? 13 : 7.3), 0)
}

/** The name of a box's module in the tree, for a layer; null for what has no module. */
export function moduleName(id: string, layer: number): string | null {
  if (id === 'softmax') return null
  const [stack, part] = id.split('.')
  if (!part) return id
  return part === 'norm' ? id : `${stack}.layers.${layer}.${part}`
}

/** One column of the figure, built upwards: y counts from the bottom until `figureOf` turns it. */
class Column {
  y = 0
  constructor(
    readonly figure: Figure, readonly stack: Stack, readonly centre: number, readonly boxWidth: number,
    /** -1: the outside is left, 1: right. */
    readonly side: -1 | 1, readonly label: Label,
  ) {}

  box(id: string, kind: BoxKind, stack: Stack = this.stack): Box {
    const lines = wrap(this.label(id, kind), this.boxWidth - PAD)
    const height = Math.max(30, lines.length * LINE + 2 * PAD - 2)
    const box = { id, kind, stack, x: this.centre - this.boxWidth / 2, y: this.y, width: this.boxWidth, height, lines }
    this.figure.boxes.push(box)
    this.y += height
    return box
  }

  /** Upwards to the next box. */
  arrow(length = GAP): void {
    this.figure.arrows.push(`M${this.centre} ${this.y}V${this.y + length}`)
    this.y += length
  }

  text(id: string): void {
    this.figure.texts.push({ x: this.centre, y: this.y + 4, id })
    this.y += 18
  }

  /** Positions that are added here; the room stays where they are turned in later, for the count of layers. */
  positions(id: string, kind: string): void {
    const height = 34
    if (kind === 'rotary') {
      this.arrow(height - 12)
      return
    }
    const lines = wrap(this.label(id, 'position'), this.boxWidth / 2 - 16)
    this.figure.boxes.push({
      id, kind: 'position', stack: this.stack, isWave: true, lines, x: this.centre - this.boxWidth / 2, y: this.y,
      width: this.boxWidth, height,
    })
    this.y += height
  }

  /** A sub-layer with its residual: the norm before it and the sum after it, or Add & Norm after it. */
  sublayer(name: string, kind: BoxKind, norm: string): Box {
    const from = this.y - GAP / 2
    const addNorm = `${this.stack}.${name}_add_norm`
    let box: Box
    let to: number
    if (norm === 'pre') {
      this.box(addNorm, 'norm')
      this.arrow(12)
      box = this.box(`${this.stack}.${name}`, kind)
      this.arrow(14)
      to = this.y + 7
      this.figure.sums.push({ x: this.centre, y: to })
      this.y += 14
    } else {
      box = this.box(`${this.stack}.${name}`, kind)
      this.arrow(8)
      const sum = this.box(addNorm, 'add_norm')
      to = sum.y + sum.height / 2
    }
    const edge = this.centre + this.side * (this.boxWidth / 2 + ROOM / 2)
    const end = this.centre + this.side * (norm === 'pre' ? 8 : this.boxWidth / 2)
    this.figure.residuals.push(`M${this.centre} ${from}H${edge}V${to}H${end}`)
    return box
  }

  /** The layers' frame around what `build` makes. */
  frame(layers: number, build: () => void): void {
    const bottom = this.y
    this.arrow(GAP)
    build()
    this.y += 10
    this.figure.arrows.push(`M${this.centre} ${this.y - 10}V${this.y}`)
    const width = this.boxWidth + 2 * ROOM
    this.figure.frames.push({
      x: this.centre - width / 2, y: bottom + 4, width, height: this.y - bottom - 8, layers, stack: this.stack,
      labelX: this.centre + this.side * (width / 2 + 4),
    })
  }
}

/** The figure of a model, for a width of the page. */
export function figureOf(config: ModelConfig, width: number, label: Label): Figure {
  const figure: Figure = { width, height: 0, boxes: [], arrows: [], residuals: [], sums: [], frames: [], ties: [], texts: [] }
  const hasEncoder = config.num_encoder_layers > 0
  const hasDecoder = config.num_decoder_layers > 0
  const columns = Number(hasEncoder) + Number(hasDecoder)
  const room = (width - 2 * EDGE - (columns - 1) * MIDDLE) / columns
  const boxWidth = Math.min(MAX_BOX, room - 2 * ROOM)
  const half = boxWidth / 2 + ROOM
  // Narrower than the page: the figure stays together, at the left.
  figure.width = 2 * EDGE + (columns - 1) * MIDDLE + columns * 2 * half
  const left = EDGE + half
  const right = figure.width - EDGE - half
  const encoder = new Column(figure, 'encoder', left, boxWidth, -1, label)
  const decoder = new Column(figure, 'decoder', right, boxWidth, 1, label)
  if (hasEncoder) drawEncoder(encoder, config)
  const cross = hasDecoder ? drawDecoder(decoder, config, hasEncoder) : null
  if (cross) {
    const [top, middle, at] = [encoder.y, (left + right) / 2, cross.y + cross.height / 2]
    figure.arrows.push(`M${left} ${top - 12}V${top}H${middle}V${at}H${cross.x}`)
    figure.texts.push({ x: middle - 6, y: Math.max(at, top) + 5, id: 'keysValues' })
  }
  if (hasDecoder) drawTies(figure, config)
  figure.height = Math.max(encoder.y, decoder.y) + 8
  return turned(figure)
}

function drawEncoder(column: Column, config: ModelConfig): void {
  column.text('source')
  column.arrow(12)
  column.box('source_embedding', 'embedding')
  column.arrow(12)
  column.positions('source_position', config.position)
  column.frame(config.num_encoder_layers, () => {
    column.sublayer('self_attention', 'attention', config.norm)
    column.arrow(GAP)
    column.sublayer('feed_forward', 'feed_forward', config.norm)
  })
  if (config.norm === 'pre') {
    column.arrow(10)
    column.box('encoder.norm', 'norm')
  }
  column.y += 12
}

/** Returns the cross-attention, or null when there is nothing to cross to. */
function drawDecoder(column: Column, config: ModelConfig, hasEncoder: boolean): Box | null {
  let cross: Box | null = null
  column.text('target')
  column.arrow(12)
  column.box('target_embedding', 'embedding')
  column.arrow(12)
  column.positions('target_position', config.position)
  column.frame(config.num_decoder_layers, () => {
    column.sublayer('self_attention', 'attention', config.norm)
    column.arrow(GAP)
    if (hasEncoder) {
      cross = column.sublayer('cross_attention', 'attention', config.norm)
      column.arrow(GAP)
    }
    column.sublayer('feed_forward', 'feed_forward', config.norm)
  })
  if (config.norm === 'pre') {
    column.arrow(10)
    column.box('decoder.norm', 'norm')
  }
  column.arrow(12)
  column.box('output', 'output', 'output')
  column.arrow(12)
  column.box('softmax', 'output', 'output')
  column.arrow(12)
  column.text('probabilities')
  return cross
}

function drawTies(figure: Figure, config: ModelConfig): void {
  const find = (id: string) => figure.boxes.find((box) => box.id === id)
  const [source, target, output] = [find('source_embedding'), find('target_embedding'), find('output')]
  if (config.tie === 'none' || !target || !output) return
  const edge = figure.width - 4
  const middle = (box: Box) => box.y + box.height / 2
  figure.ties.push(`M${target.x + target.width} ${middle(target)}H${edge}V${middle(output)}H${output.x + output.width}`)
  if (config.tie === 'all' && source) {
    figure.ties.push(`M${source.x + source.width} ${middle(source)}H${target.x}`)
  }
}

/** The same with y from the top, as SVG counts. */
function turned(figure: Figure): Figure {
  const { height } = figure
  const path = (d: string) =>
    d.replace(/([MV])([-\d.]+)(?: ([-\d.]+))?/g, (_, letter: string, a: string, b?: string) =>
      letter === 'V' ? `V${height - Number(a)}` : `M${a} ${height - Number(b)}`,
    )
  const flip = <T extends { y: number; height: number }>(box: T): T => ({ ...box, y: height - box.y - box.height })
  return {
    ...figure,
    boxes: figure.boxes.map(flip),
    frames: figure.frames.map(flip),
    arrows: figure.arrows.map(path),
    residuals: figure.residuals.map(path),
    ties: figure.ties.map(path),
    sums: figure.sums.map(({ x, y }) => ({ x, y: height - y })),
    texts: figure.texts.map((text) => ({ ...text, y: height - text.y })),
  }
}
