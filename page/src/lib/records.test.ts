import { expect, it } from 'vitest'
import { csvOfRecords } from './records'

it('has a column for every name, empty where a record lacks it', () => {
  expect(csvOfRecords([{ step: 1, loss: 2.5 }, { step: 2, bleu: 30 }])).toBe('\ufeffstep,loss,bleu\r\n1,2.5,\r\n2,,30\r\n')
})

it('keeps text text and numbers numbers', () => {
  expect(csvOfRecords([{ text: '=1+1', logp: -0.5, more: 'a "b", c' }])).toBe(
    '\ufefftext,logp,more\r\n\'=1+1,-0.5,"a ""b"", c"\r\n',
  )
})
