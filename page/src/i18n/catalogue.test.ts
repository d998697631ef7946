import { describe, expect, it } from 'vitest'
import { catalogues, languages, preferred, translate } from './catalogue'

const placeholders = (text: string) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort()

describe.each(languages)('%s', (language) => {
  it('has the keys of English, each with the same placeholders', () => {
    expect(Object.keys(catalogues[language]).sort()).toEqual(Object.keys(catalogues.en).sort())
    for (const [key, text] of Object.entries(catalogues[language])) {
      expect([key, placeholders(text)]).toEqual([key, placeholders(catalogues.en[key])])
      expect(text.trim(), key).not.toBe('')
    }
  })
})

it('the two Chinese scripts are not each other', () => {
  const simplifiedOnly = /[与为这个们来说对时会应经过还没关开长门问间见现实际单词读写语译输层权阵图释义选择设显颜]/
  const traditionalOnly = /[與為這個們來說對時會應經過還沒關開長門問間見現實際單詞讀寫語譯輸層權陣圖釋義選擇設顯顏]/
  for (const [key, text] of Object.entries(catalogues['zh-Hant'])) {
    expect(text.match(simplifiedOnly)?.[0], `${key}: ${text}`).toBeUndefined()
  }
  for (const [key, text] of Object.entries(catalogues['zh-Hans'])) {
    expect(text.match(traditionalOnly)?.[0], `${key}: ${text}`).toBeUndefined()
  }
})

it('each script uses its own readers’ terms', () => {
  const foreign = { 'zh-Hant': /数据|數據|內存|程序|信息|默認|網絡/, 'zh-Hans': /資料|资料|記憶體|记忆体|程式|資訊|资讯/ } as const
  for (const [language, pattern] of Object.entries(foreign)) {
    for (const [key, text] of Object.entries(catalogues[language as keyof typeof foreign])) {
      expect(text.match(pattern)?.[0], `${key}: ${text}`).toBeUndefined()
    }
  }
})

it('fills in values and shows what it lacks', () => {
  catalogues.en['test.text'] = '{n} of {m}'
  expect(translate('en', 'test.text', { n: 3 })).toBe('3 of {m}')
  expect(translate('en', 'test.none')).toBe('test.none')
})

it('chooses the first language it speaks', () => {
  expect(preferred(['fr', 'zh-TW'])).toBe('zh-Hant')
  expect(preferred(['zh'])).toBe('zh-Hans')
  expect(preferred(['de'])).toBe('en')
})
