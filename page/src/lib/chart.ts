// Curves: ticks, places on a plot, the point that is read; a run's log as series of points.
//
// Does not know: the page, the server, languages.
import type { TrainingEvent } from './answers'

export type Point = [step: number, value: number]

/** About `count` round numbers from the first at or below `min` to the first at or above `max`. */
export function ticks(min: number, max: number, count = 4): number[] {
  if (!(max > min)) return [min - 1, min, min + 1].slice(min === 0 ? 1 : 0)
  const raw = (max - min) / count
  const power = 10 ** Math.floor(Math.log10(raw))
  const size = power * ([1, 2, 2.5, 5].find((step) => step * power >= raw * 0.999) ?? 10)
  const first = Math.floor(min / size + 1e-9)
  const last = Math.ceil(max / size - 1e-9)
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * size)
}

/** A number's decimals that tell ticks apart. */
export function decimalsOf(values: readonly number[]): number {
  const gap = values.length > 1 ? Math.abs(values[1] - values[0]) : 1
  return Math.max(0, Math.min(8, -Math.floor(Math.log10(gap) + 1e-9) + (/^(25|2\.5)/.test(String(gap).replace(/^0\.0*/, '')) ? 1 : 0)))
}

export function linePath(points: readonly Point[], x: (step: number) => number, y: (value: number) => number): string {
  return points.map(([step, value], i) => `${i ? 'L' : 'M'}${round(x(step))} ${round(y(value))}`).join('')
}

const round = (value: number) => Math.round(value * 10) / 10

/** The last point at or before a step, or the first. */
export function pointAt(points: readonly Point[], step: number): Point | null {
  let found = points[0] ?? null
  for (const point of points) {
    if (point[0] > step) break
    found = point
  }
  return found
}

/** One event a step: a run that was resumed writes some steps again, and the later line stands. */
export function eventsOf(events: readonly TrainingEvent[], kind: string): TrainingEvent[] {
  const bySteps = new Map<number, TrainingEvent>()
  for (const event of events) if (event.event === kind) bySteps.set(event.step, event)
  return [...bySteps.values()].sort((a, b) => a.step - b.step)
}

/** One figure of events as points; what is no finite number is left out. */
export function pointsOf(events: readonly TrainingEvent[], figure: string): Point[] {
  return events.flatMap((event): Point[] => {
    const value = event[figure]
    return typeof value === 'number' && Number.isFinite(value) ? [[event.step, value]] : []
  })
}

/** Seconds as hours, minutes, seconds: the two largest that are not zero. */
export function duration(seconds: number): { hours: number; minutes: number; seconds: number } {
  const whole = Math.max(0, Math.round(seconds))
  return { hours: Math.floor(whole / 3600), minutes: Math.floor((whole % 3600) / 60), seconds: whole % 60 }
}
