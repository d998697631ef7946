// How the reader wants the page: language and theme, kept in this browser only.
import { languages, preferred, translate, type Language, type Values } from './i18n/catalogue'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

function kept<T extends string>(name: string, choices: readonly T[]): T | undefined {
  try {
    return choices.find((choice) => choice === localStorage.getItem(`transduce.${name}`))
  } catch {
    return undefined // storage is refused in some private windows and in frames
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`transduce.${name}`, value)
  } catch {
    // Then the choice lasts as long as the page.
  }
}

class Settings {
  language = $state<Language>(kept('language', languages) ?? preferred(navigator.languages))
  theme = $state<Theme>(kept('theme', themes) ?? 'system')
  systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches)
  dark = $derived(this.theme === 'dark' || (this.theme === 'system' && this.systemDark))

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.systemDark = event.matches
    })
  }

  setLanguage(language: Language): void {
    this.language = language
    keep('language', language)
  }

  setTheme(theme: Theme): void {
    this.theme = theme
    keep('theme', theme)
  }
}

export const settings = new Settings()

/** The text of a key in the reader's language. */
export function t(key: string, values?: Values): string {
  return translate(settings.language, key, values)
}

/** A number in the reader's language, with a fixed count of decimals. */
export function number(value: number, decimals = 2): string {
  return new Intl.NumberFormat(settings.language, {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  }).format(value)
}

/** A share as a percentage, `0.714` → `71%`. */
export function percent(value: number, decimals = 0): string {
  return new Intl.NumberFormat(settings.language, {
    style: 'percent',
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  }).format(value)
}
