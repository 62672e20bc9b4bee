// The player of a run of the lab: choose a scenario and a case, and step through its diagram.
import { choose, language, load, other, t } from './words.js'
import { steps } from './diagram.js'

const at = (id) => document.getElementById(id)
let about = null
let walk = null // through the diagram that is shown
let timer = 0

const cells = () => about.cells.map((cell, n) => ({ ...cell, n })).filter((cell) => cell.scenario === at('scenario').value)
const options = (list) => list.map(([value, textContent]) => Object.assign(document.createElement('option'), { value, textContent }))

function play(on) {
  clearInterval(timer)
  timer = 0
  if (on) {
    if (walk.at === walk.of) walk.step(0)
    timer = setInterval(() => {
      walk.next()
      if (walk.at === walk.of) play(false)
    }, Number(at('p-pace').value))
  }
  at('p-play').textContent = t(on ? 'player_pause' : 'player_play')
}

/** The cases of the scenario, in the language that is on. */
function cases(kept) {
  at('case').replaceChildren(...options(cells().map((cell) => [cell.n, cell.case[language()]])))
  if (kept && cells().some((cell) => cell.n === Number(kept))) at('case').value = kept
}

function say() {
  const cell = about.cells[Number(at('case').value)]
  const outcome = cell.outcome[language()]
  at('heading').textContent = cell.scenario
  at('verdict').textContent = t(cell.right ? 'lab_right' : 'lab_wrong', { outcome })
  at('verdict').className = cell.right ? '' : 'wrong'
  at('p-play').textContent = t(timer ? 'player_pause' : 'player_play')
}

let turn = 0
async function show() {
  play(false)
  const mine = ++turn
  document.body.dataset.shown = ''
  const n = Number(at('case').value)
  const html = about.cells[n].html ?? await (await fetch(`figure/${n}`)).text()
  if (mine !== turn) return // another was chosen meanwhile
  at('stage').innerHTML = html // made by the program, which has escaped what was recorded
  const figure = at('stage').querySelector('figure.steps')
  walk = steps(figure, {
    keys: false,
    onStep: (step) => {
      at('p-at').value = step
      at('p-step').textContent = `${step} / ${figure.dataset.steps}`
      document.body.dataset.step = step
    },
  })
  walk.of = Number(figure.dataset.steps)
  at('p-at').max = walk.of
  document.body.dataset.shown = n
  say()
}

function tongue() {
  other()
  cases(at('case').value)
  say()
}

addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || !walk || e.target.matches?.('select, input')) return
  const key = e.key.toLowerCase()
  if (key === ' ' && !e.target.matches?.('button')) play(!timer)
  else if (key === 'arrowleft') walk.back()
  else if (key === 'arrowright') walk.next()
  else if (key === 'home') walk.step(0)
  else if (key === 'end') walk.step(walk.of)
  else if (key === 'e') tongue()
  else return
  e.preventDefault()
})

await load()
if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.dataset.theme = 'dark'
about = at('recording') ? JSON.parse(at('recording').textContent) : await (await fetch('api/class')).json()
if (about.lang && !new URLSearchParams(location.search).has('lang')) choose(about.lang)
at('scenario').replaceChildren(...options([...new Set(about.cells.map((cell) => cell.scenario))].map((name) => [name, name])))
at('scenario').addEventListener('change', () => {
  cases()
  show()
})
at('case').addEventListener('change', show)
at('p-play').addEventListener('click', () => play(!timer))
at('p-pace').addEventListener('change', () => play(timer > 0))
at('p-at').addEventListener('input', () => walk.step(Number(at('p-at').value)))
at('b-lang').addEventListener('click', tongue)
cases()
await show()
document.body.dataset.ready = 'true'
