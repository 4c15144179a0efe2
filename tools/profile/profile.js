"use strict";
/* Draws the profile in the page. Names come from models, which may be untrusted, so names become
 * text nodes and never markup. */
(function () {
    const data = JSON.parse(document.getElementById("data").textContent);
    const SVG = document.getElementById("pattern").namespaceURI;

    /* ---- elements ---- */

    function element(name, attributes, ...children) {
        const made = document.createElement(name);
        for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
        made.append(...children.filter((child) => child !== null));
        return made;
    }

    function shape(name, attributes, ...children) {
        const made = document.createElementNS(SVG, name);
        for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
        made.append(...children);
        return made;
    }

    const ms = (value) => value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(2) : value.toFixed(4);
    const percent = (share) => (100 * share).toFixed(1) + " %";
    const rate = (value) => value > 0 ? value >= 100 ? value.toFixed(0) : value.toFixed(1) : "–";

    const count = (n, one, many) => n + " " + (n === 1 ? one : many);

    /* ---- nodes ---- */

    /* The kind of a format; it is the name of a class in the style sheet. */
    function family(format) {
        if (/[A-Z]/.test(format)) return "blocked";
        if (/^a[c-z][a-z]*b$/.test(format)) return "last";
        if (/^[a-z]+$/.test(format) && [...format].every((c, i) => c.charCodeAt(0) === 97 + i) ||
            format === "scalar") return "plain";
        return "other";
    }
    const FAMILIES = [["plain", "plain (abcd)"], ["last", "channels last (acdb)"],
                      ["blocked", "blocked (aBcd8b)"], ["other", "other"],
                      ["reorder", "reorder"]];

    const isReorder = (node) => node.kernel === "" && node.reorders.length === 1;
    const lies = (node) => isReorder(node) ? "reorder" : node.out.length > 0 ? family(node.out[0][1]) : "other";
    const where = (node) => "#" + node.index + " " + node.operator + (node.path ? " at " + node.path : "");

    function formats(infos) {
        const runs = [];
        for (const [, format] of infos) {
            const last = runs[runs.length - 1];
            if (last && last[0] === format) last[1]++;
            else runs.push([format, 1]);
        }
        return runs.map(([format, n]) => n > 1 ? format + " ×" + n : format).join(", ");
    }

    function says(reorder) {
        return reorder.cause + (reorder.copy ? " copy " : " ") + reorder.from + " → " + reorder.to +
            " (" + ms(reorder.ms) + " ms)";
    }
    const reorders = (node) => node.reorders.map(says).join("; ");
    const reorderMs = (node) => node.reorders.reduce((sum, reorder) => sum + reorder.ms, 0);

    function tell(node) {
        return where(node) + "\n" + ms(node.ms) + " ms, " + percent(node.share) + "\n" +
            node.implementation + "\nin " + formats(node.in) + "\nout " +
            node.out.map(([type, format]) => type + " " + format).join(", ") +
            (node.reorders.length ? "\nreorders: " + reorders(node) : "");
    }

    /* ---- summary ---- */

    function summary(mode) {
        const slowest = mode.nodes[mode.slowest - 1];
        const all = mode.nodes.flatMap((node) => node.reorders);
        const n = all.filter((reorder) => !reorder.copy).length;
        const causes = Object.entries(mode.reorders_by_cause).filter(([, k]) => k > 0)
            .map(([cause, k]) => k + " " + cause).join(", ");
        const box = element("div", {class: "summary"},
            element("p", {}, element("strong", {}, ms(mode.run_ms) + " ms"), " an inference, median of " +
                count(mode.runs, "run", "runs") + "; its " + count(mode.nodes.length, "node", "nodes") + " take " +
                ms(mode.nodes_ms) + " ms"));
        if (slowest)
            box.append(element("p", {class: "slowest"}, "Slowest node: ", element("strong", {}, where(slowest)),
                ", " + ms(slowest.ms) + " ms, " + percent(slowest.share) + " of the time, by " +
                (slowest.implementation || slowest.kernel)));
        const told = element("p", {class: all.length ? "red counted" : "counted", "data-reorders": n,
                                   "data-copies": all.length - n});
        told.append("Reorders: " + n + (causes ? " (" + causes + ")" : "") + "; copies: " + (all.length - n) +
            (all.length ? "; " + ms(mode.reorder_ms) + " ms, " + percent(mode.nodes_ms > 0 ? mode.reorder_ms / mode.nodes_ms : 0) +
                " of the time" : ""));
        box.append(told);
        if (all.length) box.append(...reorderPlaces(mode));
        return box;
    }

    /* The operators with reorders, the nodes whose reorders take longest, and all such nodes. */
    function reorderPlaces(mode) {
        const moved = mode.nodes.filter((node) => node.reorders.length);
        const kinds = new Map();
        for (const node of moved) kinds.set(node.operator, (kinds.get(node.operator) || 0) + node.reorders.length);
        const worst = [...moved].sort((a, b) => reorderMs(b) - reorderMs(a)).slice(0, 3);
        const list = element("ul", {});
        for (const node of moved) list.append(element("li", {}, where(node) + ": " + reorders(node)));
        return [
            element("p", {}, "They are in ", [...kinds].map(([name, n]) => name + " (" + n + ")").join(", "), "; the most costly: ",
                worst.map((node) => where(node) + " (" + node.reorders.length + ", " + ms(reorderMs(node)) + " ms)").join("; ")),
            element("details", {}, element("summary", {}, "every reorder, " + count(moved.length, "node", "nodes")), list),
        ];
    }

    function keys() {
        const line = element("div", {class: "tools", "aria-label": "legend"});
        for (const [name, text] of FAMILIES)
            line.append(element("span", {class: "key"}, element("span", {class: "swatch " + name}), text));
        return line;
    }

    /* ---- timeline ---- */

    function lane(spans, whole) {
        const row = element("div", {class: "lane"});
        for (const span of spans) {
            const width = 100 * (span.end - span.begin) / whole;
            const bar = element("span", {class: span.class, title: span.title});
            bar.style.left = 100 * span.begin / whole + "%";
            bar.style.width = Math.max(width, 0.05) + "%";
            if (width > 3) bar.append(span.name);
            row.append(bar);
        }
        return row;
    }

    function timeline(mode) {
        const spans = mode.nodes.map((node) => ({begin: node.begin_ms, end: node.begin_ms + node.shown_ms,
            class: lies(node), title: tell(node), name: node.operator}));
        const moves = mode.nodes.flatMap((node) => node.reorders.map((reorder) => ({
            begin: reorder.begin_ms, end: reorder.begin_ms + reorder.shown_ms, class: "reorder",
            title: where(node) + ": " + says(reorder), name: reorder.cause})));
        const modules = [];
        for (const node of mode.nodes) {
            const name = node.path.split(".").slice(0, 1)[0] || "(root)", last = modules[modules.length - 1];
            const end = node.begin_ms + node.shown_ms;
            if (last && last.name === name) last.end = end;
            else modules.push({begin: node.begin_ms, end, class: "other", title: name, name});
        }
        const whole = mode.shown_run_ms || 1;
        const axis = element("div", {class: "axis"}, element("span", {}, "0"),
            element("span", {}, ms(whole / 2)), element("span", {}, ms(whole) + " ms"));
        return element("div", {class: "times"},
            element("span", {}, "modules"), lane(modules, whole),
            element("span", {}, "nodes"), lane(spans, whole),
            element("span", {class: "red"}, "reorders"), lane(moves, whole),
            element("span", {}), axis);
    }

    /* ---- graph ---- */

    const BOX = {width: 210, height: 50, gap: 26, down: 34};

    /* A node's layer follows the layers of its producers. In a layer, nodes are placed left to
     * right, near their producers. */
    function place(nodes) {
        const at = [], layers = [];
        for (const node of nodes) {
            const from = node.producers.filter((p) => p > 0).map((p) => at[p - 1]);
            const layer = from.reduce((most, p) => Math.max(most, p.layer + 1), 0);
            const wish = from.length ? from.reduce((sum, p) => sum + p.column, 0) / from.length : 0;
            const taken = layers[layer] = layers[layer] || new Set();
            let column = Math.max(0, Math.floor(wish));
            for (let off = 0; taken.has(column); off++)
                column = Math.max(0, Math.floor(wish) + (off % 2 ? -1 : 1) * Math.ceil((off + 1) / 2));
            taken.add(column);
            at.push({layer, column, x: column * (BOX.width + BOX.gap) + 8, y: layer * (BOX.height + BOX.down) + 8});
        }
        return at;
    }

    const cut = (text, length) => text.length <= length ? text : text.slice(0, length - 1) + "…";

    /* Shortens a path to its end, which is more specific than its beginning. */
    function shorten(text, length) {
        return text.length <= length ? text : "…" + text.slice(text.length - length + 1);
    }

    function drawEdge(from, to, node) {
        const x = from.x + BOX.width / 2, y = from.y + BOX.height, toX = to.x + BOX.width / 2;
        const bend = Math.min(40, (to.y - y) / 2);
        const far = to.layer - from.layer > 1 && from.column === to.column ? from.x + BOX.width + 8 : null;
        const path = far === null
            ? `M${x},${y} C${x},${y + bend} ${toX},${to.y - bend} ${toX},${to.y}`
            : `M${x + 60},${y} C${far + 10},${y + 20} ${far},${y + 20} ${far},${y + 40} L${far},${to.y - 30} C${far},${to.y - 10} ${toX + 70},${to.y - 14} ${toX + 60},${to.y}`;
        return shape("path", {class: "edge " + lies(node), d: path, style: "fill:none"});
    }

    function drawNode(node, at, most) {
        const n = node.reorders.length;
        const group = shape("g", {transform: `translate(${at.x},${at.y})`},
            shape("title", {}, tell(node)),
            shape("rect", {class: "box " + lies(node) + (n ? " moved" : ""), width: BOX.width, height: BOX.height, rx: 6}),
            shape("text", {x: 8, y: 16}, cut("#" + node.index + " " + node.operator, 18)),
            shape("text", {x: 8, y: 30, class: "quiet"}, shorten(node.path, 32)),
            shape("text", {x: BOX.width - 8, y: 16, "text-anchor": "end"}, ms(node.ms) + " ms"),
            shape("text", {x: 8, y: 43, class: "quiet"}, shorten(node.out.length ? node.out[0][1] : "", 14)),
            shape("rect", {class: "share", x: 1, y: BOX.height - 4, width: Math.max(1, (BOX.width - 2) * node.ms / (most || 1)), height: 3}));
        if (n)
            group.append(shape("text", {x: BOX.width - 8, y: 43, class: "red", "text-anchor": "end"},
                count(n, "reorder", "reorders") + ", " + ms(reorderMs(node)) + " ms"));
        return group;
    }

    function graph(mode) {
        const at = place(mode.nodes), most = Math.max(...mode.nodes.map((node) => node.ms));
        const width = Math.max(...at.map((p) => p.x)) + BOX.width + 28;
        const height = Math.max(...at.map((p) => p.y)) + BOX.height + 12;
        const edges = shape("g"), boxes = shape("g");
        mode.nodes.forEach((node, i) => {
            for (const p of new Set(node.producers))
                if (p > 0) edges.append(drawEdge(at[p - 1], at[i], mode.nodes[p - 1]));
            boxes.append(drawNode(node, at[i], most));
        });
        const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
            "aria-label": "graph of " + mode.nodes.length + " nodes, mode " + mode.mode}, edges, boxes);
        const frame = element("div", {class: "wide graph", tabindex: 0, role: "region", "aria-label": "graph, mode " + mode.mode}, svg);
        let zoom = 1;
        const set = (to) => {
            const x = (frame.scrollLeft + frame.clientWidth / 2) / zoom, y = frame.scrollTop / zoom;
            zoom = Math.min(3, Math.max(0.1, to));
            svg.setAttribute("width", width * zoom);
            svg.setAttribute("height", height * zoom);
            frame.scrollLeft = x * zoom - frame.clientWidth / 2;
            frame.scrollTop = y * zoom;
        };
        const button = (text, label, act) => {
            const made = element("button", {type: "button", "aria-label": label}, text);
            made.addEventListener("click", act);
            return made;
        };
        frame.addEventListener("wheel", (event) => {
            if (!event.ctrlKey) return;
            event.preventDefault();
            set(zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
        }, {passive: false});
        let drag = null;
        frame.addEventListener("pointerdown", (event) => {
            if (event.pointerType === "mouse") drag = {x: event.clientX + frame.scrollLeft, y: event.clientY + frame.scrollTop};
        });
        addEventListener("pointermove", (event) => {
            if (!drag) return;
            frame.scrollLeft = drag.x - event.clientX;
            frame.scrollTop = drag.y - event.clientY;
        });
        addEventListener("pointerup", () => { drag = null; });
        const tools = element("div", {class: "tools"},
            button("+", "larger", () => set(zoom * 1.25)), button("−", "smaller", () => set(zoom / 1.25)),
            button("whole width", "whole width", () => set(frame.clientWidth / width)),
            button("slowest", "show the slowest node", () => {
                const p = at[mode.slowest - 1];
                set(1);
                frame.scrollLeft = p.x + BOX.width / 2 - frame.clientWidth / 2;
                frame.scrollTop = p.y - frame.clientHeight / 2;
            }),
            element("span", {class: "note"}, "drag or scroll to move, Ctrl and wheel to zoom"));
        return element("div", {}, keys(), tools, frame);
    }

    /* ---- tables ---- */

    /* columns: [heading, value of a row to sort by, cell or its text, class]. Headings are buttons,
     * so the keyboard can sort too. */
    function table(label, columns, rows, classOf) {
        const body = element("tbody"), head = element("tr");
        const lines = rows.map((row) => {
            const line = element("tr", {class: classOf ? classOf(row) : ""});
            for (const [, , show, style] of columns) line.append(element("td", {class: style || ""}, show(row)));
            body.append(line);
            return {row, line};
        });
        for (const [name, key, , style] of columns) {
            const cell = element("th", {scope: "col", class: style === "number" ? "number" : "", "aria-sort": "none"});
            const button = element("button", {type: "button"}, name);
            button.addEventListener("click", () => {
                const falls = cell.getAttribute("aria-sort") === "descending" ||
                    (cell.getAttribute("aria-sort") === "none" && style !== "number");
                for (const other of head.children) other.setAttribute("aria-sort", "none");
                cell.setAttribute("aria-sort", falls ? "ascending" : "descending");
                lines.sort((a, b) => {
                    const x = key(a.row), y = key(b.row);
                    return (x < y ? -1 : x > y ? 1 : 0) * (falls ? 1 : -1);
                });
                body.append(...lines.map((entry) => entry.line));
            });
            cell.append(button);
            head.append(cell);
        }
        const made = element("table", {"aria-label": label}, element("thead", {}, head), body);
        made.lines = lines;
        return made;
    }

    function nodesTable(mode) {
        const columns = [
            ["#", (n) => n.index, (n) => String(n.index), "number"],
            ["operator", (n) => n.operator, (n) => n.operator],
            ["path", (n) => n.path, (n) => n.path, "path"],
            ["ms", (n) => n.ms, (n) => n.ms.toFixed(4), "number"],
            ["share", (n) => n.ms, (n) => percent(n.share), "number"],
            ["GFLOP/s", (n) => n.gflops, (n) => rate(n.gflops), "number"],
            ["GB/s", (n) => n.gbs, (n) => rate(n.gbs), "number"],
            ["limit %", (n) => n.limit_share, (n) => rate(100 * n.limit_share), "number"],
            ["reorders", (n) => reorderMs(n), (n) => reorders(n), "reorders"],
            ["implementation", (n) => n.implementation, (n) => n.implementation || n.kernel],
            ["in", (n) => formats(n.in), (n) => formats(n.in), "formats"],
            ["out", (n) => formats(n.out), (n) => formats(n.out), "formats"],
        ];
        const made = table("nodes, mode " + mode.mode, columns, mode.nodes,
            (node) => node.index === mode.slowest ? "slowest" : "");
        made.classList.add("nodes");
        const search = element("input", {type: "search", placeholder: "operator, path, format", "aria-label": "show nodes with"});
        search.addEventListener("input", () => {
            const wanted = search.value.toLowerCase();
            for (const {row, line} of made.lines)
                line.hidden = !(tell(row) + row.kernel).toLowerCase().includes(wanted);
        });
        return element("div", {}, element("div", {class: "tools"}, search,
            element("span", {class: "note"}, "limit %: the least time that a node's products or bytes can take on this machine, divided by its time")),
            element("div", {class: "wide tall", tabindex: 0, role: "region", "aria-label": "nodes"}, made));
    }

    function kindsTable(mode) {
        const made = table("operators, mode " + mode.mode, [
            ["operator", (k) => k.operator, (k) => k.operator],
            ["nodes", (k) => k.nodes, (k) => String(k.nodes), "number"],
            ["ms", (k) => k.ms, (k) => k.ms.toFixed(4), "number"],
            ["share", (k) => k.ms, (k) => percent(k.share), "number"],
            ["GFLOP/s", (k) => k.ms ? k.flops / k.ms : 0, (k) => rate(k.ms ? k.flops / 1e6 / k.ms : 0), "number"],
            ["reorders", (k) => k.reorders, (k) => element("span", {class: k.reorders ? "red" : ""}, String(k.reorders)), "number"],
            ["reorder ms", (k) => k.reorder_ms, (k) => k.reorder_ms.toFixed(4), "number"],
        ], mode.kinds);
        return element("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "operators"}, made);
    }

    /* ---- tree ---- */

    function tree(mode) {
        const top = element("div", {class: "tree"});
        const stack = [top];
        mode.modules.forEach((sum, i) => {
            const name = sum.depth ? sum.path.slice(sum.path.lastIndexOf(".") + 1) || sum.path : "whole model";
            const row = element("span", {class: "row"}, element("span", {}, name),
                element("span", {}, ms(sum.ms) + " ms"), element("span", {}, percent(sum.share)),
                element("span", {class: sum.reorders ? "red" : "note"}, count(sum.reorders, "reorder", "reorders")));
            const next = mode.modules[i + 1];
            stack.length = sum.depth + 1;
            if (next && next.depth > sum.depth) {
                const made = element("details", sum.depth < 1 ? {open: ""} : {}, element("summary", {}, row));
                stack[sum.depth].append(made);
                stack.push(made);
            } else {
                stack[sum.depth].append(element("div", {class: "leaf"}, row));
            }
        });
        return top;
    }

    /* ---- two modes ---- */

    /* Compares the nodes of each path, since a plan may have fused several of them. */
    function differences(a, b) {
        const rows = new Map();
        const add = (mode, side) => {
            for (const node of mode.nodes) {
                const key = node.path || node.operator;
                if (!rows.has(key)) rows.set(key, {key, ms: [0, 0], reorders: [0, 0], names: [[], []]});
                const row = rows.get(key);
                row.ms[side] += node.ms;
                row.reorders[side] += node.reorders.length;
                row.names[side].push(node.operator + " " + formats(node.out));
            }
        };
        add(a, 0);
        add(b, 1);
        const list = [...rows.values()].sort((x, y) => Math.abs(y.ms[0] - y.ms[1]) - Math.abs(x.ms[0] - x.ms[1]));
        const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + ms(Math.abs(value));
        const side = (i, mode) => [
            [mode.mode, (r) => r.names[i].join(), (r) => r.names[i].join(", ") || "–", "formats"],
            [mode.mode + " ms", (r) => r.ms[i], (r) => r.ms[i].toFixed(4), "number"],
            [mode.mode + " reorders", (r) => r.reorders[i], (r) => element("span", {class: r.reorders[i] ? "red" : ""}, String(r.reorders[i])), "number"],
        ];
        const made = table("differences", [
            ["path", (r) => r.key, (r) => r.key, "path"], ...side(0, a), ...side(1, b),
            ["difference ms", (r) => r.ms[0] - r.ms[1], (r) => element("span", {class: r.ms[0] > r.ms[1] ? "slower" : "faster"}, signed(r.ms[0] - r.ms[1])), "number"],
        ], list);
        made.classList.add("differences");
        const ratio = b.run_ms > 0 ? a.run_ms / b.run_ms : 0;
        return element("section", {}, element("h2", {}, "Differences"),
            element("p", {}, `Mode ${a.mode} takes ${ratio.toFixed(2)} times as long as mode ${b.mode}: ` +
                `${ms(a.run_ms)} ms and ${ms(b.run_ms)} ms.`),
            element("div", {class: "wide short", tabindex: 0, role: "region", "aria-label": "differences"}, made));
    }

    /* ---- the page ---- */

    function column(mode) {
        return element("section", {class: "mode", id: "mode-" + mode.mode},
            element("h2", {}, "Mode " + mode.mode), data.against ? null : summary(mode),
            element("h3", {}, "Timeline"), timeline(mode),
            element("h3", {}, "Graph"), mode.nodes.length ? graph(mode) : "",
            element("h3", {}, "Nodes"), nodesTable(mode),
            element("h3", {}, "By operator"), kindsTable(mode),
            element("h3", {}, "By module"), tree(mode));
    }

    document.title = data.model + " – tessera profile";
    document.getElementById("title").textContent = data.model;
    document.getElementById("machine").textContent = `batch ${data.batch}, ${count(data.threads, "thread", "threads")}, oneDNN ${data.onednn}, ${data.isa}; ` +
        `measured here: ${data.limits.gflops.toFixed(0)} GFLOP/s f32, ` +
        data.limits.read.map((r) => `${r.gbs.toFixed(0)} GB/s at ${r.bytes >= 1 << 20 ? r.bytes / (1 << 20) + " MB" : r.bytes / 1024 + " KB"}`).join(", ");
    const main = document.getElementById("main");
    if (data.against) {
        const glance = [data, data.against].map((mode) => element("section", {}, element("h2", {}, "Mode " + mode.mode), summary(mode)));
        main.append(element("div", {class: "modes two"}, ...glance), differences(data, data.against));
    }
    main.append(element("div", {class: "modes" + (data.against ? " two" : "")}, column(data), data.against ? column(data.against) : null));
})();
