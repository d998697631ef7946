import { expect, it } from 'vitest'
import { Problem } from './api'
import { problemKey } from './problem'

it('every status has words of its own or falls to its class', () => {
  for (const status of [0, 400, 401, 403, 404, 413, 418, 422, 429, 500, 501, 502, 503, 504]) {
    expect(problemKey(new Problem(status, '', '')).key).toMatch(/^problem\.\w+$/)
  }
  expect(problemKey(new Problem(500, '', '')).key).toBe('problem.server')
  expect(problemKey(new Problem(418, '', '')).key).toBe('problem.other')
})

it('says how long to wait', () => {
  expect(problemKey(new Problem(429, '', '', {}, 7))).toEqual({ key: 'problem.busy', values: { status: 429, seconds: 7 } })
})

it('what a saved page lacks is no network failure', () => {
  expect(problemKey(new Problem(0, 'not-saved', '')).key).toBe('problem.notSaved')
})
