// A small model behind the OpenAI interface, as far as cognilog asks for it: one request at a time, on loopback only.
// Usage: node model-server.mjs MODEL.gguf [no-grammar]; prints its base URL once it listens. With no-grammar it refuses
// every response_format, as simple servers do.
import http from "node:http";
import {getLlama, LlamaChatSession} from "node-llama-cpp";

const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const model = await llama.loadModel({modelPath: process.argv[2]});
const noGrammar = process.argv[3] === "no-grammar";
let queue = Promise.resolve();

const refused = (message) => Object.assign(new Error(message), {status: 400});

async function complete({model: name, messages, response_format: format, max_tokens: maxTokens = 256, temperature = 0}) {
    const schema = format?.json_schema?.schema;
    if (format && (noGrammar || !schema)) throw refused(`response_format ${format.type} is not supported`);
    // One thread: two that wait for each other on a machine with much to do take fifty times as long.
    const context = await model.createContext({contextSize: 8192, threads: 1});
    try {
        const session = new LlamaChatSession({contextSequence: context.getSequence()});
        const roles = {system: (text) => ({type: "system", text}), user: (text) => ({type: "user", text}),
            assistant: (text) => ({type: "model", response: [text]})};
        session.setChatHistory(messages.slice(0, -1).map(({role, content}) => roles[role](content)));
        const grammar = schema && await llama.createGrammarForJsonSchema(schema);
        const {responseText, stopReason} = await session.promptWithMeta(messages.at(-1).content, {grammar, maxTokens, temperature});
        const {usedInputTokens, usedOutputTokens} = session.sequence.tokenMeter.getState();
        return {model: name, usage: {prompt_tokens: usedInputTokens, completion_tokens: usedOutputTokens},
            choices: [{index: 0, message: {role: "assistant", content: responseText},
                finish_reason: stopReason === "maxTokens" ? "length" : "stop"}]};
    } finally { await context.dispose(); }
}

async function embed({model: name, input}) {
    const context = await model.createEmbeddingContext({contextSize: 512, threads: 1});
    try {
        const data = [];
        for (const text of input) data.push({index: data.length, embedding: [...(await context.getEmbeddingFor(text)).vector]});
        return {model: name, data};
    } finally { await context.dispose(); }
}

const routes = {"/v1/chat/completions": complete, "/v1/embeddings": embed};
const server = http.createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    const answer = (status, body) => response.writeHead(status, {"content-type": "application/json"}).end(JSON.stringify(body));
    const route = routes[request.url] ?? (() => { throw Object.assign(new Error(`no route ${request.url}`), {status: 404}); });
    queue = queue.then(() => route(JSON.parse(text))).then((body) => answer(200, body),
        (error) => answer(error.status ?? 500, {error: {message: String(error.message)}}));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
