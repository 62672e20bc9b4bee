// The wall. It shows what the class says, and says what the teacher wants.
import { choose, has, language, load, other, outcome, t } from './words.js'
import { Player } from './player.js'
import { Store, drawHolds, drawLine, span } from './view.js'

const at = (id) => document.getElementById(id)
const store = new Store()
let about = null // what can be chosen
let chosen = null // an instance
let opened = null // the request whose menu is open
let player = null // of a run that was kept; null: what is shown happens now

// --- what the teacher wants

async function post(path, body) {
  const res = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  })
  return { ok: res.ok, body: await res.json().catch(() => ({})) }
}

async function act(body) {
  if (player) return
  const r = await post('api/do', body)
  alarm(r.ok ? '' : t('refused', { why: [r.body.error, r.body.detail].filter(Boolean).join(': ') }))
}

let quiet = 0
function alarm(text) {
  clearTimeout(quiet)
  at('alert').textContent = text
  at('alert').hidden = text === ''
  if (text) quiet = setTimeout(() => alarm(''), 6000)
}

const fire = () => act({
  do: 'fire',
  plan: {
    strategy: at('strategy').value, store: at('store').value, stock: Number(at('stock').value),
    requests: Number(at('requests').value), think_ms: Number(at('think').value), instances: 3,
  },
})
const paused = () => Boolean(store.get('pause')?.on)
const voting = () => Boolean(store.get('voting')?.on)
const stateOf = (server) => store.get(`server:${server}`)
const freeze = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'frozen' ? 'wake' : 'freeze' })
const kill = (app) => act({ do: 'fault', server: app, act: stateOf(app) === 'killed' ? 'start' : 'kill' })

const keys = {
  f: fire,
  b: () => act({ do: 'more' }),
  p: () => act({ do: 'pause', on: !paused() }),
  n: () => act({ do: 'step' }),
  v: () => about.join && act({ do: 'vote', on: !voting() }),
  w: () => chosen && freeze(chosen),
  k: () => chosen && kill(chosen),
  o: () => toggle('scenes'),
  q: () => about.join && toggle('qr'),
  '?': () => toggle('keys'),
  t: theme,
  e: tongue,
}

addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || !about) return
  if (e.target.matches?.('select, input') && e.key !== 'Escape') return
  const key = e.key.toLowerCase()
  if (player) {
    if (key === ' ' && !e.target.matches?.('button')) player.play(!player.playing)
    else if (key === 'arrowleft') player.step(-1)
    else if (key === 'arrowright') player.step(1)
    else if (key === 'home') player.seek(player.from)
    else if (key === 'end') player.seek(player.to)
    else if ('et?'.includes(key)) keys[key]()
    else return
    e.preventDefault()
    return
  }
  const scene = about.scenes.find((s) => s.key === key)
  const app = about.apps[Number(key) - 1]
  if (keys[key]) keys[key]()
  else if (app) select(app)
  else if (scene) play(scene.name)
  else return
  e.preventDefault()
})

function play(name) {
  for (const d of document.querySelectorAll('dialog[open]')) d.close()
  act({ do: 'scene', scene: name })
}

function toggle(id) {
  const d = at(id)
  if (d.open) return d.close()
  for (const other of document.querySelectorAll('dialog[open]')) other.close()
  d.showModal()
}

function select(app) {
  chosen = chosen === app ? null : app
  for (const e of document.querySelectorAll('.app')) {
    e.classList.toggle('chosen', e.dataset.app === chosen)
    e.querySelector('.name').setAttribute('aria-pressed', String(e.dataset.app === chosen))
  }
}

function theme() {
  const dark = document.documentElement.dataset.theme === 'dark'
  document.documentElement.dataset.theme = dark ? 'light' : 'dark'
  render()
}

function tongue() {
  other()
  build()
  render()
}

// --- the parts of the page that depend on what there is

function element(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props)
  e.append(...children)
  return e
}

const buttons = (list) => list.map(([name, run]) => {
  const b = element('button', { type: 'button', textContent: t(`act_${name}`) })
  b.dataset.act = name
  b.addEventListener('click', run)
  return b
})

const lanes = ['waits', 'read', 'thinks', 'writes', 'done']

function build() {
  tokens.clear()
  at('apps').replaceChildren(...about.apps.map((app, i) => {
    const name = element('button', { type: 'button', className: 'name' }, element('kbd', { textContent: i + 1 }), ` ${app}`)
    name.addEventListener('click', () => select(app))
    name.setAttribute('aria-pressed', String(app === chosen))
    const head = element('header', {}, name, element('span', { className: 'state' }), ...buttons([
      ['freeze', () => freeze(app)], ['wake', () => freeze(app)], ['kill', () => kill(app)], ['start', () => kill(app)],
    ]))
    const rows = element('div', { className: 'lanes' }, ...lanes.map((lane) => {
      const e = element('div', { className: 'lane' }, element('span', { textContent: t(lane) }), element('b'))
      if (lane !== 'waits' && lane !== 'done') e.classList.add('inside')
      e.dataset.lane = lane
      return e
    }))
    const section = element('section', { className: `app${app === chosen ? ' chosen' : ''}` }, head, rows)
    section.dataset.app = app
    section.setAttribute('aria-label', app)
    sizes.observe(rows)
    return section
  }))
  const fault = (server, name) => act({ do: 'fault', server, act: name })
  for (const e of at('servers').querySelectorAll('.server')) e.remove()
  at('servers').append(...about.servers.map((server) => {
    const e = element('div', { className: 'server' }, element('b', { textContent: server }),
      element('span', { className: 'state' }),
      ...buttons(['kill', 'start', 'delay', 'cut', 'mend'].map((name) => [name, () => fault(server, name)])))
    e.dataset.server = server
    return e
  }))
  at('strategy').replaceChildren(...about.strategies.map((s) => element('option', {
    value: s.name, textContent: s.name, disabled: Boolean(s.reason), title: s.reason ?? '', selected: s.name === at('strategy').value,
  })))
  stores()
  at('scenes').querySelector('ol').replaceChildren(...about.scenes.map((s) => {
    const b = element('button', { type: 'button' }, element('kbd', { textContent: s.key.toUpperCase() }), ` ${t(`scene_${s.name}`)}`)
    b.addEventListener('click', () => play(s.name))
    return element('li', {}, b)
  }))
  const named = [['F', 'f'], ['B', 'b'], ['P', 'p'], ['N', 'n'], ['1 2 3', '123'], ['W', 'w'], ['K', 'k'], ['V', 'v'], ['O', 'o'],
    ['Q', 'q'], ['E', 'e'], ['T', 't'], ['?', '?']]
  at('keys').querySelector('dl').replaceChildren(...named.flatMap(([key, word]) => [
    element('dt', {}, element('kbd', { textContent: key })), element('dd', { textContent: t(`key_${word}`) }),
  ]))
  at('menu-points').replaceChildren(...['after_lock', 'after_read', 'before_write', 'after_write', 'after_unlock'].map((point) => {
    const b = element('button', { type: 'button', textContent: t(point) })
    b.addEventListener('click', () => {
      at('menu').close()
      act({ do: 'hold', req: opened, point })
    })
    return b
  }))
  at('b-qr').hidden = at('b-vote').hidden = !about.join
  if (about.join) {
    at('qr-url').textContent = about.join
    at('qr-picture').src = 'api/join.svg'
    at('qr-picture').alt = about.join
  }
}

function stores() {
  const s = about.strategies.find((s) => s.name === at('strategy').value)
  const kept = at('store').value
  at('store').replaceChildren(...(s?.stores ?? []).map((name) => element('option', { value: name, textContent: name, selected: name === kept })))
}

// --- tokens

const tokens = new Map() // buttons, by request
const mostShown = 20 // of one instance: 60 of three
const laneOf = {
  waits: 'waits', in: 'read', read: 'read', thinks: 'thinks', writes: 'writes', wrote: 'writes', done: 'done',
}
const sizes = new ResizeObserver(() => render())

function face(id, token) {
  let b = tokens.get(id)
  if (!b) {
    b = element('button', { type: 'button', className: 'tok fresh' }, element('b'), element('span'))
    b.addEventListener('click', () => menu(id))
    b.dataset.req = id
    tokens.set(id, b)
  }
  const sold = token.phase === 'done' && token.outcome === 'accepted'
  b.className = ['tok', b.isConnected ? '' : 'fresh', ['in', 'read', 'thinks', 'writes', 'wrote'].includes(token.phase) && 'in',
    token.point && 'stands', sold && 'sold', token.twin && 'twin', token.phase === 'done' && !sold && 'no']
    .filter(Boolean).join(' ')
  b.dataset.phase = token.phase
  const wrote = token.wrote !== undefined && (sold || token.phase === 'wrote')
  b.firstChild.textContent = token.who && token.who.length < 3 ? token.who : token.n
  b.lastChild.textContent = wrote ? `${token.read}→${token.wrote}` : token.phase === 'done' ? '✗'
    : token.read !== undefined && token.phase !== 'waits' ? token.read : ''
  b.setAttribute('aria-label', describe(token))
  b.title = describe(token)
  return b
}

function describe(token) {
  const parts = [t('token', { n: token.n, phase: token.phase === 'done' ? outcome(token.outcome) : t(laneOf[token.phase] ?? 'sent') })]
  if (token.who) parts.push(token.who)
  if (token.read !== undefined) parts.push(t('token_read', { n: token.read }))
  if (token.wrote !== undefined) parts.push(t('token_wrote', { n: token.wrote }))
  if (token.fence) parts.push(t('token_fence', { n: token.fence }))
  if (token.point) parts.push(t('token_at', { point: t(token.point) }))
  if (token.twin) parts.push(t('token_twin'))
  return parts.join(', ')
}

function place(app, list) {
  const box = document.querySelector(`.app[data-app="${app}"] .lanes`)
  if (!box) return
  const width = box.clientWidth
  const left = 114
  const wide = width < 420 ? 70 : 84
  const seen = new Set()
  const moved = []
  let room = mostShown
  for (const lane of lanes) {
    const row = box.querySelector(`[data-lane="${lane}"]`)
    let own = list.filter(([, token]) => laneOf[token.phase] === lane)
    own.sort(([, a], [, b]) => (lane === 'done' ? b.ended - a.ended : Boolean(b.point) - Boolean(a.point) || a.n - b.n))
    const tall = 36
    const rows = Math.max(1, Math.floor((row.clientHeight - 2) / (tall + 3)))
    const size = lane === 'done' || lane === 'writes' ? wide + 36 : wide
    const columns = Math.max(1, Math.floor((width - left) / (size + 5)))
    const most = Math.min(rows * columns, room)
    row.lastChild.textContent = own.length > most ? t('hidden', { n: own.length - most }) : ''
    own = own.slice(0, most)
    room -= own.length
    own.forEach(([id, token], i) => {
      const b = face(id, token)
      seen.add(id)
      b.style.width = `${size}px`
      b.style.height = `${tall}px`
      const x = left + (i % columns) * (size + 5)
      const y = row.offsetTop + 2 + Math.floor(i / columns) * (tall + 3)
      b.style.transform = `translate(${x}px, ${y}px)`
      if (!b.isConnected) {
        box.append(b)
        moved.push(b)
      } else if (b.parentNode !== box) box.append(b)
    })
  }
  for (const b of [...box.querySelectorAll('.tok')]) {
    if (!seen.has(b.dataset.req)) {
      b.remove()
      tokens.delete(b.dataset.req)
    }
  }
  if (moved.length) requestAnimationFrame(() => moved.forEach((b) => b.classList.remove('fresh')))
}

function menu(id) {
  if (player) return
  const token = store.get(`t:${id}`)
  if (!token) return
  opened = id
  at('menu-title').textContent = t('token', { n: token.n, phase: token.phase === 'done' ? outcome(token.outcome) : t(laneOf[token.phase] ?? 'sent') })
  at('menu-what').textContent = describe(token)
  at('menu-go').hidden = !token.point
  for (const b of at('menu-points').children) b.disabled = token.phase === 'done'
  at('menu').showModal()
}

// --- figures and words

function figure(id, value, on) {
  const e = at(id)
  e.querySelector('b').textContent = value
  e.classList.toggle('on', Boolean(on))
}

function sentence(v) {
  if (v.code !== 'race') return t(v.code)
  const parts = []
  if (v.oversold > 0) parts.push(t('race_oversold', { n: v.oversold }))
  if (v.lost > 0) parts.push(t('race_lost', { n: v.lost }))
  if (v.lost < 0) parts.push(t('race_gone', { n: -v.lost }))
  if (v.collisions > 0) parts.push(t('race_twins', { n: v.collisions }))
  return `${t('race')} ${parts.join(language() === 'zh' ? '，' : ', ')}${language() === 'zh' ? '。' : '.'}`
}

function put(e, text) { // a live region speaks only when its text changes
  if (e.textContent !== text) e.textContent = text
}

function words() {
  const run = store.get('run')
  const v = store.get('verdict') ?? { code: 'idle' }
  const plan = run?.plan
  put(at('heading'), plan ? [plan.scene && t(`scene_${plan.scene}`), `${plan.strategy} · ${plan.store}`].filter(Boolean).join(' — ') : t('title'))
  put(at('verdict'), sentence(v))
  at('verdict').className = v.code
  at('dropped').hidden = !v.dropped
  if (v.dropped) at('dropped').textContent = t('dropped', { n: v.dropped })
  const some = run?.n > 0
  figure('f-stock', some ? v.written : '–')
  put(at('truth'), some ? t('truth', { n: v.truth }) : '')
  at('truth').classList.toggle('off', some && v.truth !== v.written)
  figure('f-sold', some ? v.sold : '–')
  put(at('f-sold').querySelector('p'), some ? t('of', { n: v.initial }) : '')
  figure('f-oversold', some ? v.oversold : '–', v.oversold > 0)
  figure('f-lost', some ? v.lost : '–', some && v.lost !== 0 && v.known)
  const note = store.get('note')
  at('scene').hidden = !note?.words
  if (note?.words) put(at('scene'), t(note.words[0]))
  at('b-pause').setAttribute('aria-pressed', String(paused()))
  put(at('pause-name'), t(paused() ? 'resume' : 'pause'))
  put(at('vote-name'), t(voting() ? 'vote_close' : 'vote'))
  put(at('theme-name'), t(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'))
  put(at('think-shown'), t('seconds', { n: (Number(at('think').value) / 1000).toFixed(2) }))
  if (player) {
    put(at('p-play'), t(player.playing ? 'player_pause' : 'player_play'))
    at('p-at').value = (1000 * (player.now - player.from)) / Math.max(1, player.to - player.from)
    put(at('p-time'), t('seconds', { n: ((player.now - player.from) / 1e6).toFixed(3) }))
  }
  put(at('qr-crowd'), store.get('crowd') ? t('students', { n: store.get('crowd').crowd }) : '')
  ballot()
}

function ballot() {
  const vote = store.get('voting')
  const total = (vote?.votes ?? []).reduce((a, b) => a + b, 0)
  at('ballot').hidden = !vote || (!vote.on && total === 0)
  if (at('ballot').hidden) return
  if (vote.on) { // who sees what the others say does not think
    at('bars').replaceChildren(element('p', { textContent: t('votes', { n: total }) }))
    return
  }
  at('bars').replaceChildren(...vote.votes.map((n, i) => {
    const bar = element('i')
    bar.style.width = `${(100 * n) / Math.max(1, ...vote.votes)}%`
    return element('div', {}, element('span', { textContent: t(`choice_${i}`) }),
      element('span', { className: 'length' }, bar), element('b', { textContent: n }))
  }))
}

function standing() {
  for (const e of document.querySelectorAll('.app, .server')) {
    const name = e.dataset.app ?? e.dataset.server
    const state = stateOf(name) ?? 'up'
    const base = e.dataset.app ? `app${chosen === name ? ' chosen' : ''}` : 'server'
    e.className = `${base} ${state}`
    put(e.querySelector('.state'), t(state))
    const can = {
      freeze: state === 'up', wake: state === 'frozen', kill: state !== 'killed' && state !== 'starting', start: state === 'killed',
      delay: state === 'up', cut: state === 'up', mend: state === 'slow' || state === 'cut',
    }
    for (const b of e.querySelectorAll('[data-act]')) b.hidden = !can[b.dataset.act]
  }
}

let waiting = false
function render() {
  if (waiting || !about) return
  waiting = true
  requestAnimationFrame(() => {
    waiting = false
    words()
    standing()
    const all = store.under('t:')
    for (const app of about.apps) place(app, all.filter(([, token]) => token.app === app))
    const way = all.filter(([, token]) => !token.app && token.phase !== 'done').length
    put(at('way'), way ? t('way', { n: way }) : '')
    document.body.dataset.n = store.get('run')?.n ?? 0
    document.body.dataset.verdict = store.get('verdict')?.code ?? ''
  })
}

const name = (server, state) => `${server}: ${t(state)}`
const seconds = (n) => t('seconds', { n })
function charts() {
  if (!about || document.hidden) return
  const time = span(store, player ? player.now : Date.now() * 1000)
  const seen = drawHolds(at('holds'), store, about.apps, time, seconds, name)
  drawLine(at('line'), store, time, seconds, name)
  at('holds').setAttribute('aria-label', t('chart', { n: seen.holds, m: seconds(seen.overlap.toFixed(2)) }))
  at('holds').dataset.overlap = seen.overlap
  at('line').setAttribute('aria-label', t('line'))
}

// --- the connection

let source = null
function listen() {
  source?.close()
  source = null
  if (document.hidden) return // a snapshot comes first when it is seen again
  source = new EventSource('api/stream')
  source.onopen = () => alarm('')
  source.onerror = () => alarm(t('connection'))
  source.onmessage = (e) => {
    const frame = JSON.parse(e.data)
    store.apply(frame)
    render()
  }
}

function replay() {
  document.body.classList.add('replay')
  at('controls').hidden = at('b-scenes').hidden = at('b-keys').hidden = true
  at('player').hidden = false
  player = new Player(about.frames, store, render)
  at('p-play').addEventListener('click', () => player.play(!player.playing))
  at('p-back').addEventListener('click', () => player.step(-1))
  at('p-on').addEventListener('click', () => player.step(1))
  at('p-at').addEventListener('input', () => {
    player.playing = false
    player.seek(player.from + (Number(at('p-at').value) / 1000) * (player.to - player.from))
  })
  at('p-pace').addEventListener('change', () => { player.pace = Number(at('p-pace').value) })
  player.seek(player.to) // the end first: what came of it
}

async function enter() {
  const token = location.hash.slice(1)
  if (token && !at('recording')) {
    await post('api/enter', { token })
    history.replaceState(null, '', location.pathname + location.search) // nobody is to read it from the projector
  }
  const inside = at('recording')
  if (inside) {
    about = JSON.parse(inside.textContent)
  } else {
    const res = await fetch('api/class')
    if (!res.ok) {
      put(at('verdict'), t('locked'))
      return
    }
    about = await res.json()
  }
  if (about.lang && !new URLSearchParams(location.search).has('lang')) choose(about.lang)
  build()
  if (about.replay) {
    replay()
  } else {
    at('strategy').value = 'none'
    stores()
    listen()
  }
  setInterval(charts, 100)
  render()
}

at('controls').addEventListener('submit', (e) => {
  e.preventDefault()
  fire()
})
at('strategy').addEventListener('change', stores)
at('think').addEventListener('input', render)
for (const [id, key] of [['b-more', 'b'], ['b-pause', 'p'], ['b-step', 'n'], ['b-vote', 'v'], ['b-theme', 't'], ['b-lang', 'e']]) {
  at(id).addEventListener('click', () => keys[key]())
}
for (const b of document.querySelectorAll('[data-opens]')) b.addEventListener('click', () => toggle(b.dataset.opens))
for (const b of document.querySelectorAll('dialog .close')) b.addEventListener('click', () => b.closest('dialog').close())
at('menu-go').addEventListener('click', () => {
  at('menu').close()
  act({ do: 'go', req: opened })
})
document.addEventListener('visibilitychange', () => about && !player && listen())
addEventListener('pageshow', (e) => e.persisted && about && !player && listen())

await load()
document.documentElement.dataset.theme = new URLSearchParams(location.search).get('theme') === 'dark' ? 'dark' : 'light'
put(at('heading'), t('title'))
if (!has('title')) throw new Error('no words')
await enter()
document.body.dataset.ready = 'true'
