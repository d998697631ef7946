// The tensors of a story, asked for in as few requests as the server allows.
import { session } from '../session.svelte'
import { allNames, partsOf, storyNames, type WalkEntry } from './story'
import type { Tensors } from './tensor'
import type { Trace } from './types'

const NAMES_A_REQUEST = 16

/** A layer's story, with the trace and the layer it is of; null where the model has no such layer. */
export async function loadStory(trace: Trace, layer: number) {
  const { walk } = await session.json<{ walk: WalkEntry[] }>('shapes', trace)
  const names = storyNames(walk, layer)
  if (!names) return null
  const wanted = allNames(names)
  const tensors: Tensors = {}
  for (let at = 0; at < wanted.length; at += NAMES_A_REQUEST) {
    const query = wanted.slice(at, at + NAMES_A_REQUEST).map((name) => `name=${encodeURIComponent(name)}`).join('&')
    Object.assign(tensors, (await session.tensors(`api/v1/traces/${trace.id}/tensors?${query}`)).tensors)
  }
  return { trace, layer, parts: partsOf(names, tensors) }
}
