// The texts of all pages, in both languages, from the catalogue.

let table = {}
let lang = 'en'

/** Loads the texts. The language is ?lang=, then the earlier choice, then the page's, then the browser's. */
export async function load() {
  const inside = document.getElementById('words') // in a single-file page
  table = inside ? JSON.parse(inside.textContent) : await (await fetch('words.json')).json()
  const asked = new URLSearchParams(location.search).get('lang')
  let kept = null
  try {
    kept = localStorage.getItem('lang')
  } catch { /* storage can be off */ }
  choose([asked, kept, navigator.language?.slice(0, 2)].find((l) => l === 'en' || l === 'zh') ?? 'en')
}

/** Chooses a language, and translates the page. */
export function choose(next) {
  lang = next
  document.documentElement.lang = lang === 'zh' ? 'zh-CN' : 'en'
  document.title = t('title')
  for (const e of document.querySelectorAll('[data-t]')) e.textContent = t(e.dataset.t)
  for (const e of document.querySelectorAll('[data-label]')) e.setAttribute('aria-label', t(e.dataset.label))
  for (const e of document.querySelectorAll('[data-hint]')) e.placeholder = t(e.dataset.hint)
}

/** Switches to the other language and stores the choice. */
export function other() {
  choose(lang === 'zh' ? 'en' : 'zh')
  try {
    localStorage.setItem('lang', lang)
  } catch { /* it lasts as long as the page */ }
}

export const language = () => lang
export const has = (key) => key in table

/** The text of a key, with {name} filled in. {name:one|several} is one of two words, by number. */
export function t(key, values = {}) {
  const entry = table[key]
  if (!entry) return `⟨${key}⟩` // visible, and found by a test
  return entry[lang].replace(/\{(\w+)(?::([^|{}]*)\|([^|{}]*))?\}/g, (_, name, one, several) =>
    one === undefined ? values[name] ?? '' : Number(values[name]) === 1 ? one : several)
}

/** The meaning of an outcome. */
export const outcome = (code) => (has(code) ? t(code) : t('other', { code }))

/** The width of a text in pixels: a measurement would cost a layout. A Chinese character is twice as wide. */
export const wide = (text, narrow) => [...text].reduce((sum, c) => sum + (c > '\u2e7f' ? 2 : 1), 0) * narrow

/** The verdict of a run in a sentence. */
export function verdictOf(v) {
  if (v.code !== 'race') return t(v.code)
  const parts = [
    v.oversold > 0 && t('race_oversold', { n: v.oversold }), v.lost > 0 && t('race_lost', { n: v.lost }),
    v.lost < 0 && t('race_gone', { n: -v.lost }),
  ].filter(Boolean)
  return lang === 'zh' ? `${t('race')}${listed(parts)}。` : `${t('race')} ${listed(parts)}.`
}

export const listed = (parts, comma = '，') => parts.join(lang === 'zh' ? comma : ', ')

/** Sends a command to the class. Returns its reply, and why it was refused, which the class says in both languages. */
export async function post(path, body) {
  const res = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  })
  const reply = await res.json().catch(() => ({}))
  return { reply, why: res.ok ? '' : reply.said?.[lang] ?? t('reason_failed') }
}
