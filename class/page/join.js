// The students' page: a name, one button, what came of it, and a vote.
import { load, other, outcome, t } from './words.js'

const at = (id) => document.getElementById(id)
let view = null
let source = null

async function post(path, body) {
  const res = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body ?? {}),
  })
  return { ok: res.ok, body: await res.json().catch(() => ({})) }
}

const say = (text) => { at('say').textContent = text }

function refused(code) {
  const known = { code: 'error_code', name: 'error_name', full: 'error_full', too_fast: 'too_fast', no_run: 'no_run' }
  say(t(known[code] ?? 'error_failed'))
}

function show() {
  at('enter').hidden = view !== null
  at('shop').hidden = view === null
  if (!view) return
  at('you').textContent = t('you', { name: view.name, n: view.number })
  at('buy').disabled = view.run === 0
  at('ballot').hidden = !view.voting
  for (const b of at('choices').children) b.setAttribute('aria-pressed', String(view.voted === Number(b.value)))
  at('voted').textContent = view.voted === undefined ? '' : t('voted')
  const lines = Object.entries(view.own).sort((a, b) => b[0] - a[0]).map(([n, buy]) => {
    const li = document.createElement('li')
    const done = buy.phase === 'done'
    const sold = done && buy.outcome === 'accepted'
    li.className = sold ? (buy.twin ? 'twin' : 'sold') : ''
    const text = sold ? t(buy.twin ? 'buy_twin' : 'buy_sold', { read: buy.read, wrote: buy.wrote })
      : done ? outcome(buy.outcome) : t('buy_wait')
    li.textContent = `#${n} ${text}`
    return li
  })
  at('own').replaceChildren(...lines)
}

// A page that nobody looks at has no stream: phones end it without a word, and the snapshot comes first anyway.
function listen() {
  source?.close()
  source = null
  if (document.hidden || !view) return
  source = new EventSource('events')
  source.onmessage = (e) => {
    view = JSON.parse(e.data)
    show()
  }
}

async function look() {
  const res = await fetch('state')
  const seen = res.ok ? await res.json() : {}
  view = seen.number ? seen : null // nobody has number 0
  show()
  listen()
}

at('enter').addEventListener('submit', async (e) => {
  e.preventDefault()
  const r = await post('join', { code: at('code').value || location.hash.slice(1), name: at('name').value })
  if (!r.ok) return refused(r.body.error)
  say('')
  await look()
})
at('buy').addEventListener('click', async () => {
  const r = await post('buy')
  if (r.ok) {
    say('')
  } else {
    refused(r.body.error)
  }
})
at('language').addEventListener('click', () => {
  other()
  show()
})
document.addEventListener('visibilitychange', listen)
addEventListener('pageshow', listen)

await load()
if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.dataset.theme = 'dark'
at('code-field').hidden = location.hash.length > 1
for (let i = 0; i < 3; i++) {
  const b = document.createElement('button')
  b.type = 'button'
  b.value = i
  b.dataset.t = `choice_${i}`
  b.textContent = t(b.dataset.t)
  b.addEventListener('click', async () => {
    const r = await post('vote', { choice: i })
    if (!r.ok) refused(r.body.error)
  })
  at('choices').append(b)
}
await look()
document.body.dataset.ready = 'true'
