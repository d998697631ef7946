import { describe, expect, it } from 'vitest'
import type { BeamNode, SearchStep, StepDetail } from './answers'
import { beamTree, cacheNumbers, distribution, nextTokens, pathTo, walkTree } from './decoding'

const token = (id: number, logp: number) => ({ id, piece: `▁${id}`, text: ` ${id}`, kind: 'text', logit: 0, logp })

describe('a distribution', () => {
  it('equals softmax by hand', () => {
    const logits = [Math.log(2), Math.log(1), Math.log(1)]
    const { logsumexp, entropy } = distribution(logits)
    expect(logsumexp).toBeCloseTo(Math.log(4), 12)
    expect(entropy).toBeCloseTo(0.5 * Math.log(2) + 0.5 * Math.log(4), 12)
  })

  it('at a small temperature is all on the best, also for large logits', () => {
    expect(distribution([1000, 999, 0], 0.01).entropy).toBeLessThan(1e-6)
    expect(distribution([1000, 999, 0], 0.01).logsumexp).toBeCloseTo(100_000, 6)
  })

  it('takes tokens that cannot come', () => {
    expect(distribution([0, 0, -Infinity]).entropy).toBeCloseTo(Math.log(2), 12)
  })
})

describe('the next tokens', () => {
  const step = {
    top: [token(2, Math.log(0.5)), token(0, Math.log(0.25))], rest: 0.25, entropy: 1.04, logsumexp: 0,
  } as unknown as StepDetail
  const logits = Float32Array.from([0, 0, Math.log(2)])

  it('are the server’s without logits', () => {
    const { rows, rest, entropy, error } = nextTokens(step, null, 1)
    expect(rows.map((row) => row.probability)).toEqual([Math.exp(Math.log(0.5)), Math.exp(Math.log(0.25))])
    expect([rest, entropy, error]).toEqual([0.25, 1.04, null])
  })

  it('sum to one with the rest at every temperature', () => {
    for (const tau of [0.2, 1, 2.5]) {
      const { rows, rest } = nextTokens(step, logits, tau)
      const power = 2 ** (1 / tau)
      expect(rows[0].probability).toBeCloseTo(power / (power + 2), 6)
      expect(rest).toBeCloseTo(1 / (power + 2), 6)
    }
  })

  it('say how far they are from the server’s at the model’s own temperature', () => {
    expect(nextTokens(step, logits, 1).error).toBeLessThan(1e-6)
    expect(nextTokens({ ...step, top: [token(2, -1), token(0, -2)] }, logits, 1).error).toBeGreaterThan(0.1)
    expect(nextTokens(step, logits, 2).error).toBeNull()
  })
})

describe('the search’s tree', () => {
  const node = (n: number, parent: number, score: number, state: BeamNode['state']): BeamNode => ({
    n, parent, token: n, piece: `▁w${n}`, text: ` w${n}`, kind: 'text', logp: score, total: score, score, state,
  })
  const search = [
    { step: 0, nodes: [node(0, -1, -1, 'live'), node(1, -1, -2, 'live'), node(2, -1, -0.5, 'pruned')], cache: null },
    { step: 1, nodes: [node(3, 0, -3, 'live'), node(4, 1, -2, 'finished'), node(5, 0, -9, 'pruned')], cache: null },
  ] satisfies SearchStep[]
  const tree = beamTree(search, [1, 4])

  it('puts the best of a step on top, and what was dropped below what was kept', () => {
    expect(tree.columns.map((column) => column.map((at) => at.n))).toEqual([[0, 1, 2], [4, 3, 5]])
    expect(tree.nodes.get(4)!.x).toBeGreaterThan(tree.nodes.get(0)!.x + tree.nodes.get(0)!.width)
    expect(new Set(tree.columns[0].map((at) => at.x)).size).toBe(1)
  })

  it('knows the way to the output', () => {
    expect([...tree.nodes.values()].filter((at) => at.isChosen).map((at) => at.n)).toEqual([1, 4])
    expect(pathTo(tree, 5).map((at) => at.n)).toEqual([0, 5])
  })

  it('is walked by arrow keys', () => {
    expect(walkTree(tree, 0, 'ArrowRight')).toBe(3)
    expect(walkTree(tree, 3, 'ArrowLeft')).toBe(0)
    expect(walkTree(tree, 0, 'ArrowLeft')).toBeNull()
    expect(walkTree(tree, 3, 'ArrowUp')).toBe(4)
    expect(walkTree(tree, 5, 'ArrowDown')).toBeNull()
    expect(walkTree(tree, 4, 'ArrowRight')).toBeNull()
    expect(walkTree(tree, 5, 'Home')).toBe(0)
    expect(walkTree(tree, 0, 'End')).toBe(4)
    expect(walkTree(tree, 0, 'x')).toBeNull()
  })

  it('may be empty', () => {
    expect(beamTree([], [])).toMatchObject({ columns: [], height: 24 })
  })
})

it('counts the cache’s numbers from its shapes', () => {
  expect(cacheNumbers({ keys: [4, 5, 4, 22, 32], values: [4, 5, 4, 22, 32], bytes: 450_560 })).toEqual({ count: 112_640, itemSize: 4 })
})
