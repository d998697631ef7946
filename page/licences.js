// What the page is made of besides our own source: the licence of every package whose code is in the script.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Writes `licences.txt` beside the page; fails the build when a package in it has no licence text. */
export function licences() {
  return {
    name: 'licences',
    apply: 'build',
    generateBundle() {
      const folders = new Set([...this.getModuleIds()].map(packageOf).filter((folder) => folder !== null))
      const texts = [...folders].sort().map(licenceOf)
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: texts.join(`\n${'-'.repeat(80)}\n\n`) })
    },
  }
}

function packageOf(id) {
  const path = id.replace(/^\0/, '').split('?')[0]
  if (!path.includes('/node_modules/')) return null
  let folder = dirname(path)
  while (!existsSync(join(folder, 'package.json')) || !nameOf(folder)) folder = dirname(folder)
  return folder
}

function nameOf(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).name
}

function licenceOf(folder) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
  if (!file) throw new Error(`${folder} has no licence text`)
  return `${nameOf(folder)}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
}
