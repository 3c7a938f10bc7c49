// All English texts of the page. Each language has a file of this shape.

/** Arguments of messages, as texts; an absent one is empty. */
export type Arguments = Record<
  | "address"
  | "bytes"
  | "columns"
  | "cost"
  | "feature"
  | "features"
  | "first"
  | "high"
  | "host"
  | "index"
  | "instead"
  | "k"
  | "least"
  | "levels"
  | "limit"
  | "listed"
  | "low"
  | "max"
  | "min"
  | "missing"
  | "most"
  | "near"
  | "nearest"
  | "need"
  | "offered"
  | "permitted"
  | "pinned"
  | "requested"
  | "scheme"
  | "second"
  | "taken"
  | "tolerance"
  | "url"
  | "value"
  | "values"
  | "weight"
  | "what"
  | "within"
  | "word",
  string
>;

/** Small numbers as words. */
const count = (number: number) => ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][number] ?? String(number);
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
const someWishes = (number: number) => (number === 1 ? "One wish" : `${capital(count(number))} wishes`);

export const en = {
  language: "English",
  title: "If only …",
  skip: "Skip to the content",
  hostedBy: (host: string) => `A service of ${host}`,
  count,
  and: (list: string[]) => (list.length < 2 ? (list[0] ?? "") : `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`),
  institution: "the institution",
  institutionDative: "the institution",
  capital,

  steps: { name: "Steps", code: "Code", start: "Start", about: "About you", wishes: "Wishes", answer: "Answer" },
  actions: { begin: "Begin", back: "Back", goOn: "Continue", ask: "Ask privately", stop: "Stop", details: "Technical details" },

  start: {
    heading: "If only I had …",
    lede: "You were turned down. Find the nearest case that was accepted, and so what would have had to be different, without telling anyone who you are.",
    connecting: "Connecting to the operators …",
    code: (operator: string) => `Enter your code for ${operator}`,
    codeHelp: "64 digits and letters from a to f, as the operator gave them to you. Capital letters and spaces do not matter.",
    codeRefused: "This operator does not know the code, or all its questions have been asked. Check it against what you were given, or ask for a new one.",
    codeSign: (sign: string) => `This code is not right: it has the sign ${sign}, and codes have only digits and the letters a to f.`,
    codeLength: (length: number) => `This code is not right: it has ${length} of 64 signs.`,
    codeLocal: "Nothing was sent. Mistyped codes are found here, in your browser.",
    codeMissing: "A code is needed here.",
    example: "Fill in an example",
    lock: "Nothing you type leaves this page in one piece.",
    question: "Your question",
    questionStays: "stays in this browser",
    answer: "Your answer",
    answerWhole: "made whole only in this browser",
    caption: (count: string, areTalking: boolean) =>
      `The browser cuts your question into ${count} parts. Each part by itself is noise. ${areTalking ? `The ${count} operators compute together, and what they exchange is noise as well.` : `The ${count} operators work on one part each and never talk to each other.`}`,
    who: "Who takes part, and what they learn about you",
    decided: "made the decision",
    gives: "Gives",
    givesCases: (rows: string, name: string, version: string) => `${rows} accepted cases (“${name}”, version ${version})`,
    givesGroups: (rows: string, name: string, version: string) => `${rows} cases, each of which stands for several accepted people (“${name}”, version ${version})`,
    learnsHere: "Learns from this page",
    nothing: "nothing",
    operators: (count: string) => `the ${count} operators`,
    do: "Do",
    computes: "each computes with its own part of your question",
    computesTogether: "compute together with the parts of your question",
    learn: "Learn",
    learnTime: "when somebody asked, and from which internet connection.",
    threshold: (safe: number, all: number) => {
      const apart = safe === 1 ? "None of them alone can read the question." : `Even ${count(safe)} of them together cannot read the question.`;
      const together = safe + 1 === all ? (all === 2 ? "Both together could" : `All ${count(all)} together could`) : `${capital(count(safe + 1))} together could`;
      return `${apart} ${together}.`;
    },
    hosts: "hosts this page",
    host: "The host of this page",
    does: "Does",
    hostDoes: "gives you this page. It should be none of the above",
    learns: "Learns",
    hostLearns: "when somebody opened it, and from which connection. Nothing you type.",
    askServers: "Which operators hold the decisions?",
    askServersHint: "Enter one address per line, as given by the institution or a consumer office. Each must belong to a different operator.",
    connect: "Connect",
    signed: "Key that signs the cases",
    unsigned: "The cases are not signed.",
    digest: "Digest of the manifest",
  },

  about: {
    heading: "About you",
    lede: (institution: string) => `What you told ${institution}. You find most of it in your application.`,
    paste: "Paste the values, or open a file",
    pasteLabel: "A row of a table, values one per line, “name: value”, or a saved profile",
    pasteHelp: "Read here, in your browser; a file goes nowhere.",
    fill: "Fill in",
    open: "Open a file …",
    keep: "Save these values",
    read: (count: number) => (count === 1 ? "1 value read." : `${count} values read.`),
    readNone: "No values found. Paste a row with or without names, or one value per line.",
    readMore: "Only the first row was used.",
    readUnknown: (names: string) => `Not used: ${names}.`,
    readLook: (count: number) => (count === 1 ? "One needs a look:" : `${count} need a look:`),
    done: (done: number, all: number) => `${done} of ${all}`,
    unknown: "not known",
    choose: "Please choose",
    missingCounts: (value: string) => `Leave it empty if you do not know it; then ${value} is used.`,
    counts: (level: string) => `Counts as ${level}.`,
    beyond: (level: string) => `Outside the range of the data; counts as ${level}.`,
    lock: "Still only in this tab.",
    lockMore: (count: string) => `Your values leave it in ${count} parts, and only when you press “Ask”.`,
  },

  wishes: {
    heading: "What may change?",
    lede: "Your answer will keep to these wishes. Nobody else sees them.",
    none: "No wishes: anything may change",
    some: someWishes,
    suggested: (number: number, institution: string) => `${someWishes(number)}, suggested by ${institution}`,
    keep: (institution: string) => `Keep the suggestions of ${institution}`,
    keepHelp: "Things that people can hardly change",
    own: "Set your own wishes",
    remove: (wish: string) => `Remove: ${wish}`,
    what: "What may happen to it?",
    kinds: { free: "may change", stay: "can’t change", up: "↑ only up", down: "↓ only down", range: "between … and …", permit: "only certain ones" },
    low: "from",
    high: "to",
    open: "open",
    permitted: "Which ones?",
    hard: "How hard would a change be for you?",
    hardness: ["easy", "medium", "hard", "very hard"],
    few: "As few changes as possible",
    reset: "Back to the suggestions",
    /** A wish in words, after the label of its column. */
    chip: {
      stay: (label: string) => `${label} can’t change`,
      up: (label: string) => `${label} only up`,
      down: (label: string) => `${label} only down`,
      range: (label: string, range: string) => `${label} ${range}`,
      permit: (label: string, words: string) => `${label}: ${words}`,
      hard: (label: string, hardness: string) => `${label} ${hardness} to change`,
      few: "As few changes as possible",
      limit: (most: string) => (most === "1" ? "At most 1 change" : `At most ${most} changes`),
    },
    between: (low: string, high: string) => (low && high ? `between ${low} and ${high}` : low ? `${low} or more` : high ? `${high} or less` : "any value"),
    short: { stay: "can’t change", up: "only up", down: "only down", free: "may change", hard: (hardness: string) => `${hardness} to change` },
    more: "More choices",
    metric: "How changes count",
    metrics: {
      l2: "large changes count much more (squared)",
      l1: "in proportion to their size",
      mad: "relative to the usual deviation among accepted people",
      count: "only the number of changes",
    },
    maxChanges: "Largest number of changes (empty: no limit)",
    ways: "Number of different ways",
    public: "The operators see this choice.",
    scheme: "Protocol",
    learns: (what: string) => `Besides the case you learn: ${what}`,
    lock: (count: string) => `When you press, your question is cut into ${count} parts.`,
    lockMore: "Every question makes the same traffic, whatever it is about.",
  },

  errors: {
    summary: (count: number) => (count === 1 ? "One entry needs a look" : `${count} entries need a look`),
    nothingSent: "Nothing was sent.",
    needed: "This is needed.",
    notNumber: (example: string) => `Write a number, such as ${example}.`,
    twoReadings: (value: string) => `${value} can mean two things. Which one?`,
    notDate: "Write a date, such as 2026-11-16.",
    notPermitted: "Choose one of the values.",
    noPermitted: "Choose at least one.",
  },

  working: {
    heading: "Asking …",
    connecting: "The browser connects to the operators.",
    compare: (rows: string) => `The operators compare your parts with ${rows} accepted cases.`,
    fetch: "The operators send what was found, without learning which cases.",
    progress: "Progress",
    steps: { meet: "Meet", compare: "Compare", fetch: "Fetch" },
    waiting: "waiting",
    done: "done",
    stopHelp: "If you stop, the operators see that somebody stopped, and nothing else.",
    stopped: "Stopped. The operators see that a question was stopped, and nothing else.",
  },

  answer: {
    nearest: "The nearest accepted case",
    /** Instead, if a server may be lying. */
    doubtful: "An accepted case near you",
    other: (place: number, distance: string) => `${["A second", "A third", "A fourth", "A fifth"][place - 1] ?? "Another"} way, ${distance}`,
    /** The sentence of the answer: texts, with the phrases of the differences between them. */
    sentence: (phrases: string[], smaller: number, isGroup: boolean, outcome: string): (string | { phrase: string })[] => {
      const list: (string | { phrase: string })[] = [];
      const parts = [...phrases, ...(smaller > 0 ? [`${count(smaller)} smaller ${smaller === 1 ? "difference" : "differences"}`] : [])];
      parts.forEach((part, place) => {
        list.push(place === 0 ? "" : place === parts.length - 1 ? " and " : ", ", place < phrases.length ? { phrase: part } : part);
      });
      return [isGroup ? "People like you, with " : "Someone like you, with ", ...list, `, ${outcome}.`];
    },
    wasAccepted: "was accepted",
    wereAccepted: "were accepted",
    instead: (label: string, theirs: string, yours: string) => `${/^.[A-Z]/.test(label) ? label : label.charAt(0).toLowerCase() + label.slice(1)} ${theirs} instead of ${yours}`,
    restSame: "Everything else was the same as yours.",
    restNear: "Everything else was the same as yours, or practically the same.",
    same: "Someone with your values was accepted.",
    sameGroup: "People with about your values were accepted.",
    sameLede: (institution: string) => `${capital(institution)} accepted a case that is just like yours. Ask it to look again.`,
    ways: "Different ways",
    waysCount: (count: string) => `${capital(count)} ways to a yes`,
    different: "What was different",
    you: "you",
    now: "You",
    accepted: "accepted case",
    less: (amount: string) => `${amount} less`,
    more: (amount: string) => `${amount} more`,
    later: (days: string) => `${days} ${days === "1" ? "day" : "days"} later`,
    earlier: (days: string) => `${days} ${days === "1" ? "day" : "days"} earlier`,
    not: (theirs: string, yours: string) => `${theirs}, not ${yours}`,
    axisLess: "← less",
    axisMore: "more →",
    picture: (label: string, yours: string, theirs: string) => `${label}: you ${yours}, accepted case ${theirs}`,
    near: (count: number) => `Practically the same (${count})`,
    nearHelp: "Each differs by less than 2% of its range, or counts as the same value.",
    exact: "Exactly the same",
    caption: (label: string, min: string, max: string) => `A longer arrow is a bigger step, measured by the whole range of each line. ${label}, for example, goes from ${min} to ${max}.`,
    beside: (count: string) => `The ${count} ways side by side`,
    what: "What",
    youHave: (value: string) => `you: ${value}`,
    equal: "same",
    almost: "≈ same",
    distance: "Distance from you",
    distances: (ratio: number) => {
      if (ratio <= 1) return "as near";
      if (ratio <= 1.25) return "about as near";
      return ratio < 1.75 ? "somewhat farther" : ratio < 2.5 ? "about twice as far" : `about ${count(Math.round(ratio))} times as far`;
    },
    first: "nearest",
    far: "farther away",
    standsFor: "Stands for",
    people: (low: string, high: string) => (low === high ? `${low} people` : `${low} to ${high} people`),
    nearAccepted: (percent: number) => `Of the people nearest to it, ${percent}% or more were accepted.`,
    fewer: (found: string, asked: string) => `You asked for ${asked} ways; found: ${found}.`,
    sure: "How sure is this?",
    oneRecord: "This is the record of one accepted person.",
    group: (people: string) => `This case stands for ${people} who were accepted.`,
    groupMore: "They are much alike, and it is their middle: not the record of any one person.",
    figures: (low: number, high: number) => `${low} figures are filled, ${high - low} more are outlined: ${low} to ${high} people`,
    signed: (institution: string) => `It is signed by ${institution}, and your browser has checked the signature.`,
    unsigned: "It is not signed, so an operator could have changed it.",
    means: "What it means",
    meansPerson: (institution: string) => `${capital(institution)} accepted a person with these values.`,
    meansGroup: (institution: string) => `${capital(institution)} accepted people with about these values.`,
    meansNearest: (rows: string) => `Among ${rows} accepted cases, it is the nearest to you that fits your wishes.`,
    meansOther: (rows: string) => `Among ${rows} accepted cases, it is the nearest that fits your wishes and keeps what mattered most in the ways before it.`,
    matching: (rows: string, all: string) => `${rows} of ${all} accepted cases fit your wishes.`,
    not1: (institution: string) => `It is no promise. Rules change, and only ${institution} decides.`,
    not2: "It does not say why you were turned down.",
    not3: "It is no advice: not everything here may be in your hands.",
    meansNot: "What it does not mean",
    keeps: "It keeps to your wishes:",
    notes: "Please note",
    lyingOperator: (index: number) => `Operator ${index} gave a wrong answer or a wrong number; this was corrected.`,
    next: "What now?",
    nextHelp: "Every operator sees when somebody asks. If one of them cheats, a question that you ask because of this answer can tell it something about you. So it is best to decide beforehand how many questions you ask, and to take your time.",
    change: "Change the wishes",
    print: "Print as a letter",
    save: "Save",
    letter: "An answer from “If only …”",
    asked: (name: string, version: string) => `Asked in a browser, without a name. About: ${name}, version ${version}.`,
    computed: (operators: string) => `Computed by ${operators}, each of which saw only noise.`,
    hosted: (host: string) => `The page was hosted by ${host}, who can explain this letter.`,
  },

  none: {
    heading: "Nobody who fits all your wishes was accepted.",
    lede: "That is an answer too, and not a fault. Your values and wishes are still here.",
    noWishes: "The data has no accepted case that this search can find.",
    which: "Your wishes, the strictest first",
    suggested: "suggested",
    free: "Let it change",
    widen: (range: string) => `Widen it: ${range}`,
    let: (range: string) => `Let it be ${range}`,
    plain: (low: string, high: string) => `${low} to ${high}`,
    limit: (most: number) => (most === 1 ? "Allow one change" : `Allow ${most} changes`),
    anyNumber: "Allow any number of changes",
    loosened: "✓ loosened",
  },

  seen: {
    heading: "How this stayed private",
    text: "These are the parts that your browser sent. Each operator saw one of them, and its size, which is the same for everybody.",
    saw: (operator: string) => `${operator} saw this`,
    noise: "Noise. Every other question could have looked the same.",
    only: (count: string) => (count === "two" ? "Only this tab has both" : `Only this tab has all ${count}`),
    together: "Only together do they make the question.",
    show: "Show the raw bytes",
    warn: "Show nobody the bytes of two operators: together they reveal your question. They are neither printed nor saved.",
    operator: (index: number) => `Operator ${index}`,
    message: (number: number, bytes: string, share: string) => `Message ${number}: ${bytes}, with a part of ${share} that begins with`,
    traffic: (up: string, down: string, scheme: string) => `${up} sent, ${down} received, protocol ${scheme}`,
  },

  away: {
    heading: (away: number) => (away === 1 ? "One operator cannot be reached just now" : `${capital(count(away))} operators cannot be reached just now`),
    all: "The operators cannot be reached just now",
    lede: (needed: string) => `${capital(needed)} are needed for an answer, so the form is not open yet. You have lost nothing, and nothing was sent.`,
    ledeAsked: "There is no answer this time. The operators that were reached learned nothing but that somebody asked.",
    operators: "The operators",
    there: "✓ is there",
    absent: "○ does not answer",
    looks: (time: string) => `This page looks again every minute. Last time: ${time}.`,
    look: "Look again now",
    askAgain: "Ask again",
    lasts: (host: string) => `If it lasts until tomorrow, tell ${host}.`,
    hostOrInstitution: "the institution",
  },

  contradiction: {
    heading: "No answer is shown, because it could be wrong",
    lede: "The parts of the operators do not fit together. One of them made a mistake, or somebody has changed something.",
    wait: "Please do not ask again today",
    why: "An operator who cheats on purpose could learn something from a quick second try. Waiting costs you nothing.",
    note: (number: string) => `Print this note, or write down its number: ${number}. Nothing about you is in it.`,
    give: (whom: string) => `Give it to ${whom}. Do not tell an operator how your search went.`,
    mended: "Ask again when they say that it is mended.",
    print: "Print this note",
    back: "Back to the start",
    kept: "What you typed is still in this tab and nowhere else.",
    /** Before a question was sent. */
    refused: "This page does not ask these operators",
    refusedLede: "Something does not fit, so nothing was sent.",
  },

  /** Messages of the engine by code. A test compares the codes and the arguments. */
  messages: {
    "no-server-reachable": () => "None of the servers could be reached.",
    "too-few-servers": () => "Not enough servers could be reached for a search.",
    "not-compared": () => "Not all servers could be reached, so they were not compared.",
    "too-few-answers": () => "Not enough servers answered.",
    "manifests-differ": () => "The servers serve different manifests, so no query was sent. A server may just have been updated: try again in a few minutes. If the error persists, tell the institution.",
    "keys-differ": () => "The servers have different keys, so no query was sent. One operator uses a wrong key; the technical details name the keys.",
    pinned: () => "The servers do not match the pinned values of this page, so no query was sent.",
    "same-index": () => "Two servers claim the same index, so no query was sent.",
    "same-host": (a: Arguments) => `Two servers have the same host, ${a.host}. One operator would receive two shares of your query, so nothing was sent.`,
    "same-certificate-key": (a: Arguments) => `${a.first} and ${a.second} have the same certificate key. Its owner would receive two shares of your query, so no query was sent.`,
    "may-not-be-nearest": () => "The result may not be the nearest: a server may be lying.",
    "stands-for": (a: Arguments) => `The record stands for at least ${a.k} accepted people; it is not the record of any one person.`,
    "other-address": () => "A server has another address than the institution's list, so no query was sent.",
    manifest: () => "The servers sent an invalid manifest, so no query was sent.",
    search: () => "The servers contradict each other, or one sent invalid data. No answer is shown, because it could be wrong. Tell the institution, not an operator. A lying server could learn something from a second search.",
    url: () => "This is not a valid server address.",
    input: () => "Some input is invalid.",
    machine: () => "This browser could not run the search.",
    other: () => "Something went wrong.",
    changed: () => "The servers have updated their data since you opened this page. The form is now up to date. Please check it.",
    "too-large": () => "A search of this database is too large for a browser.",
    "no-credentials": () => "No searches are left, so no query was sent. Ask the institution for more.",
    missing: (a: Arguments) => `Values are missing: ${a.features}.`,
    top: (a: Arguments) => `You asked for ${a.requested} results; at most ${a.limit} are possible.`,
    scheme: () => "This protocol is not offered.",
    certificates: () => "The certificates of the authorities cannot be used.",
    "partly-in-range": (a: Arguments) => `${a.feature} ${a.low && a.high ? `${a.low} to ${a.high}` : a.low ? `from ${a.low}` : `up to ${a.high}`}: ${a.levels} lies only partly within this range and was excluded.`,
    "partly-below": (a: Arguments) => `${a.feature} must not fall: ${a.levels} lies partly below your value and was excluded.`,
    "partly-above": (a: Arguments) => `${a.feature} must not rise: ${a.levels} lies partly above your value and was excluded.`,
    "stays-within": (a: Arguments) => `${a.feature} stays as it is: within ${a.within}.`,
    clamped: (a: Arguments) => `Your value of ${a.feature} is outside the bounds of the data; it counts as ${a.taken}.`,
    "default-used": (a: Arguments) => `You gave no value of ${a.feature}; ${a.taken} is used.`,
    "rounded-costs": (a: Arguments) =>
      `Costs of ${a.features} are so small beside the others that rounding may hide differences of one level; the record may be slightly dearer than the nearest.`,
    "ignored-columns": (a: Arguments) => `Ignored, because the data has no such column: ${a.columns}.`,
    "wish-immutable": (a: Arguments) => `${a.feature} stays as it is`,
    "wish-features-to-vary": (a: Arguments) => `only ${a.features} may change`,
    "wish-suggested-immutable": () => "features marked as hard to change stay as they are",
    "wish-only-up": (a: Arguments) => `${a.feature} does not fall`,
    "wish-only-down": (a: Arguments) => `${a.feature} does not rise`,
    "wish-range": (a: Arguments) => `${a.feature} is ${a.low && a.high ? `${a.low} to ${a.high}` : a.low ? `${a.low} or more` : a.high ? `${a.high} or less` : "any value"}`,
    "wish-permit": (a: Arguments) => `${a.feature} is one of ${a.values}`,
    "wish-max-changes": (a: Arguments) => (a.most === "1" ? "at most 1 feature changes" : `at most ${a.most} features change`),
    "impossible-wish": () => "No value satisfies all wishes. Relax one of them.",
    "weight-out-of-range": (a: Arguments) => `The weight ${a.weight} is not between ${a.least} and ${a.most}.`,
    "weight-not-an-integer": (a: Arguments) => `With this protocol the difficulty must be a whole number from ${a.least} to ${a.most}; it is ${a.weight}.`,
    "empty-range": (a: Arguments) => `No value lies between these bounds. The nearest values are: ${a.near}.`,
    "not-a-value": (a: Arguments) => `${a.value} is not one of the values.`,
    "needs-a-range": (a: Arguments) => `${a.value} is not one of the values, because they are intervals. Give a range instead.`,
    "cost-table-one-hot": () => "This column cannot have a cost table.",
    "cost-out-of-range": (a: Arguments) => `The cost ${a.cost} of ${a.value} is not between 0 and 1,000,000,000.`,
    "cost-table-twice": () => "The cost table lists a value twice.",
    "cost-table-empty": () => "The cost table is empty.",
    "cost-table-incomplete": (a: Arguments) => `The cost table must have a cost for every value. Missing: ${a.word || "unknown"}.`,
    "no-direction": () => "These values have no order, so there is no direction. Choose the permitted values instead.",
    "no-range": () => "These values have no order, so there is no range. Choose the permitted values instead.",
    "no-deviation": () => "The usual deviation of this feature is not known. Choose another metric of changes.",
    "scheme-without-gates": (a: Arguments) => `The protocol ${a.scheme} has no ranges, permitted values or directions. Choose another, such as ${a.instead}.`,
    "scheme-without-immutable": (a: Arguments) => `The protocol ${a.scheme} has no features that must not change. Choose another, such as ${a.instead}.`,
    "tolerance-out-of-range": (a: Arguments) => `The tolerance ${a.value} of ${a.feature} must be a number or a percentage of the value range, up to 50%.`,
    "wish-tolerance": (a: Arguments) => `${a.feature} counts as unchanged within ${a.tolerance}`,
    "scheme-without-ways": (a: Arguments) => `The protocol ${a.scheme} does not support different ways. Choose another, such as ${a.instead}.`,
    ways: (a: Arguments) => `1 to ${a.limit} ways can be searched for.`,
    "top-and-ways": () => "Choose several nearest rows or several ways, not both.",
    "scheme-without-costs": (a: Arguments) => `The protocol ${a.scheme} does not support this metric, difficulty or limit on changes. Choose another, such as ${a.instead}.`,
    "scheme-without-weights": (a: Arguments) => `The protocol ${a.scheme} does not support the difficulty of a change. Choose another, such as ${a.instead}.`,
    "too-many-immutable": (a: Arguments) => `At most ${a.limit} features may be kept from changing.`,
    "query-limit": () => "Your wishes exceed a limit of the servers.",
    "unknown-feature": (a: Arguments) => `There is no feature ${a.feature}.${a.nearest && ` Do you mean ${a.nearest}?`}`,
    "missing-value": () => "A value is required here.",
    "two-readings": (a: Arguments) => `${a.value} can mean ${a.first} or ${a.second}. Enter one of these.`,
    "two-costs": (a: Arguments) => `Two wishes set the same cost of ${a.feature}. Give only one of them.`,
    "not-a-number": (a: Arguments) => `${a.value} is not valid here. Enter a value from ${a.min} to ${a.max}.`,
    "not-permitted": (a: Arguments) => `${a.value} is not one of the values: ${a.permitted}.`,
    "invalid-feature": (a: Arguments) => `The servers describe the feature ${a.feature} incorrectly.`,
    "invalid-schema": () => "The servers describe the features incorrectly.",
  },

  levels: {
    any: "any value",
    below: (high: string) => `below ${high}`,
    from: (low: string) => `${low} and above`,
    between: (low: string, high: string) => `${low} to ${high}`,
    above: (low: string, high: string) => `more than ${low} to ${high}`,
  },

  failure: {
    heading: "Something went wrong",
    kept: "The form keeps your input.",
    serves: (digest: string) => `serves the manifest ${digest}…`,
    server: {
      unreachable: "cannot be reached. It may be offline, its certificate may not be trusted, or it does not allow this page",
      slow: "did not answer in time",
      busy: "cannot answer at the moment; try again in a minute",
      overloaded: "is overloaded; try again in a minute",
      "ledger-unavailable": "cannot count searches at the moment; try again in a minute",
      "shards-unavailable": "has only part of its data at the moment; try again in a minute. The technical details name the missing rows",
      "cut-off": "closed the connection before its response was complete",
      damaged: "sent a damaged response",
      unauthorized: "requires a code, or does not know yours",
      "budget-exhausted": "reports that all questions of your code have been asked; ask its operator for more",
      "unknown-manifest": "has updated its data",
      "not-a-server": "is not an ifonly server",
      refused: "refused the request",
      manifest: "sent an invalid manifest",
      "too-large": "received a message that is too long",
      "upload-timeout": "did not receive the message in time",
      "incomplete-body": "received only part of the message",
      "unknown-key-epoch": "does not have the key of this search; its operator must act",
      "scheme-not-offered": "does not offer this protocol",
      "unsupported-version": "has another version; reload this page",
      "wrong-ticket": "does not recognise this search",
      "wrong-server": "received a message for another server",
      malformed: "could not read the message",
      "wrong-path": "received the message at a wrong path",
      "peer-failure": "could not complete the search with the other servers",
      internal: "reports an internal error",
      "not-found": "does not know this path",
      "method-not-allowed": "does not allow this request",
    },
  },

  footer: {
    build: (version: string, build: string) => `Version ${version}, build ${build}.`,
    compare:
      "To compare this page with the published one, save the files listed in SHA256SUMS and check them with “sha256sum -c”. The build is the beginning of the SHA-256 hash of that list. It must equal the published build.",
    compareHeading: "Is this the right page?",
    memory: "Your values are only in the memory of this tab, not in the address or in storage. They are gone when you close the tab.",
    trust: "The host of this page could change it. The host should be neither the institution nor an operator.",
  },
};

export type Texts = typeof en;
