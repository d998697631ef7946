// The page's words: one folder a language, one JSON file a room of the page, the same keys in each.
//
// A key is `file.key`; `{name}` in a text is filled in. Add a view's words in files of its own.
export const languages = ['en', 'zh-Hant', 'zh-Hans'] as const
export type Language = (typeof languages)[number]

const files = import.meta.glob<Record<string, string>>('./*/*.json', { eager: true, import: 'default' })

export const catalogues: Record<Language, Record<string, string>> = { en: {}, 'zh-Hant': {}, 'zh-Hans': {} }
for (const [path, texts] of Object.entries(files)) {
  const [, language, room] = path.match(/^\.\/([^/]+)\/([^/]+)\.json$/)!
  for (const [key, text] of Object.entries(texts)) catalogues[language as Language][`${room}.${key}`] = text
}

export type Values = Record<string, string | number>

/** The text of a key with its values filled in; an unknown key is the key itself, which a test looks for. */
export function translate(language: Language, key: string, values: Values = {}): string {
  const text = catalogues[language][key] ?? key
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}

/** The first of the reader's languages that the page speaks. */
export function preferred(wanted: readonly string[]): Language {
  for (const tag of wanted) {
    const lower = tag.toLowerCase()
    if (lower.startsWith('zh')) return /hant|tw|hk|mo/.test(lower) ? 'zh-Hant' : 'zh-Hans'
    if (lower.startsWith('en')) return 'en'
  }
  return 'en'
}
