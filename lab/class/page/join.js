// The students' page: a name, one button, the results, and a vote.
import { listed, load, other, outcome, post, t, verdictOf } from './words.js'

const at = (id) => document.getElementById(id)
let view = null
let source = null

const say = (text) => { at('say').textContent = text }

function show() {
  at('enter').hidden = view !== null
  at('shop').hidden = view === null
  if (!view) return
  at('you').textContent = t('you', { name: view.name, n: view.number })
  at('buy').disabled = view.run === 0
  at('run').textContent = view.run === 0 ? '' : [view.scene && t(`scene_${view.scene}`), view.strategy,
    view.known && t('stock_left', { n: view.written, of: view.initial, sold: view.sold })].filter(Boolean).join(' · ')
  at('verdict').textContent = view.voting ? t('verdict_hidden') : view.run === 0 ? '' : verdictOf(view)
  at('verdict').className = view.code
  at('vote-about').textContent = view.about ? t('vote_about', { run: t(`scene_${view.about}`) }) : t('vote_about_next')
  at('vote-question').textContent = view.asked || t(view.about ? `ask_${view.about}` : 'question')
  at('ballot').hidden = !view.voting
  for (const b of at('choices').children) b.setAttribute('aria-pressed', String(view.voted === Number(b.value)))
  at('voted').textContent = view.voted === undefined ? '' : t('voted')
  const lines = Object.entries(view.own).sort((a, b) => b[0] - a[0]).map(([n, buy]) => {
    const li = document.createElement('li')
    const done = buy.phase === 'done'
    const sold = done && buy.outcome === 'accepted'
    li.className = sold ? (buy.twin ? 'twin' : 'sold') : ''
    const text = sold && buy.replayed ? t('buy_replayed') : sold ? t(buy.twin ? 'buy_twin' : 'buy_sold', {
      read: buy.read, wrote: buy.wrote, with: listed(buy.with ?? [], '、') })
      : done ? outcome(buy.outcome) : t('buy_wait')
    li.textContent = `#${n} ${text}`
    return li
  })
  at('own').replaceChildren(...lines)
}

// A hidden page closes its stream, because phones end it silently; the next stream begins with a snapshot.
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
  view = seen.number ? seen : null // number 0: not joined
  show()
  listen()
}

at('enter').addEventListener('submit', async (e) => {
  e.preventDefault()
  const { why } = await post('join', { code: at('code').value || location.hash.slice(1), name: at('name').value })
  say(why)
  if (!why) await look()
})
// Each purchase has a key. A second press before the reply, or within a second, repeats the key, so that the shop
// replies as before and sells nothing more.
const twice = 1000
let purchase = null
function purchased() {
  const over = purchase?.n && (view.run !== purchase.run || view.own[purchase.n]?.phase === 'done')
  const now = performance.now()
  if (!purchase || (over && now - purchase.at > twice)) {
    purchase = { key: `${Date.now()}-${Math.round(now)}`, run: view.run }
  }
  purchase.at = now
  return purchase
}

at('buy').addEventListener('click', async () => {
  const it = purchased()
  const { reply, why } = await post('buy', { key: it.key })
  say(why)
  if (!why) it.n ??= reply.n
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
    say((await post('vote', { choice: i })).why)
  })
  at('choices').append(b)
}
await look()
document.body.dataset.ready = 'true'
