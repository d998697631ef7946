import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'
import { licences } from './licences.js'

// One script and one style sheet, with names that stay: the server sends them with an ETag, and a saved
// page puts both inline, where a script that loads other scripts would find none.
export default defineConfig({
  base: './',
  plugins: [svelte(), licences()],
  build: {
    outDir: '../src/transduce/serve/static',
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: 'assets/page.js',
        assetFileNames: 'assets/page[extname]',
      },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8000' } },
  test: { include: ['src/**/*.test.ts'] },
})
